"""Whatever stands in a manifest, the answer is a result or an error that a person can act on."""

import contextlib
import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.errors import InputError
from hostler.manifests import read_manifests
from tests.manifests.samples import container, node, owned_by, pod, template, thing
from tests.random_examples import count_examples

TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    "namespaces": ["x"],
    "namespaceSelector": {},
    "matchLabelKeys": ["app"],
}
RICH = {
    "affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": TERM}]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
            "minDomains": 2,
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "schedulingGroup": {"podGroupName": "g"},
    "preemptionPolicy": "Never",
    "priorityClassName": "high",
}
START = "2026-01-01T00:00:00Z"
PORTS = {"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2, "protocol": "TCP", "hostIP": "::"}]}
GANG = {
    "schedulingPolicy": {"gang": {"minCount": 2}},
    "disruptionMode": {"all": {}},
    "schedulingConstraints": {"topology": [{"key": "zone"}]},
}
ANNOTATIONS = {"annotations": {"priority": "1", "pod-group": "g"}, "labels": {"app": "web"}}
BODY = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b"}, **RICH)}
OBJECTS = [
    node("n1", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
    pod(
        "a", containers=[container(cpu="1"), PORTS], metadata=ANNOTATIONS, status={"startTime": "2026-01-01T00:00:00Z"}
    ),
    pod("b", metadata={**ANNOTATIONS, **owned_by("ReplicaSet", "rs")}, **RICH),
    thing("Namespace", "shop", metadata={"labels": {"a": "b"}}),
    thing("Service", "s", spec={"selector": {"app": "web"}}),
    thing("PriorityClass", "high", version="scheduling.k8s.io/v1", value=5, globalDefault=True),
    thing("PodDisruptionBudget", "p", version="policy/v1", spec={"selector": {}}, status={"disruptionsAllowed": 1}),
    thing("PodGroup", "g", version="scheduling.k8s.io/v1beta1", spec=GANG),
    thing("PodGroup", "h", version="scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2, "minResources": {"cpu": 1}}),
    *(thing(kind, "w", version="apps/v1", spec=BODY) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
    thing("ReplicaSet", "rs", version="apps/v1", spec=BODY, metadata=owned_by("Deployment", "w")),
    thing("ReplicationController", "rc", spec={"selector": {"a": "b"}, "template": template({"a": "b"})}),
    thing("Job", "j", version="batch/v1", spec={"parallelism": 2, "completions": 3, "template": template()}),
    thing("CronJob", "c", version="batch/v1", spec={"jobTemplate": {"spec": {"template": template(**RICH)}}}),
]
JUNK = st.sampled_from(
    [None, True, 0, -1, 3, 2**70, 0.5, float("nan"), "", "x", "²", "9" * 50, [], [None], ["x"], {}, {"x": None}, {3: 4}]
)


def places(value, path=()):
    """Every place in a value where something could stand instead."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        yield (*path, key)
        yield from places(part, (*path, key))


PLACES = [path for path in places(OBJECTS) if len(path) > 1]


@settings(max_examples=count_examples(500))
@given(st.sampled_from(PLACES), JUNK, st.booleans())
def test_junk_anywhere_is_read_or_refused_but_breaks_nothing(place, junk, seed_annotations):
    objects = copy.deepcopy(OBJECTS)
    value: Any = objects
    for step in place[:-1]:
        value = value[step]
    value[place[-1]] = junk
    with contextlib.suppress(InputError):
        read_manifests(objects, seed_annotations=seed_annotations)


def test_the_objects_are_right_before_they_are_spoilt():
    assert read_manifests(OBJECTS, seed_annotations=True).guests
