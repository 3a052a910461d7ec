"""Where a pod may run because of its volumes, and what must exist before it can run."""

import pytest

from hostler.kube.api.resources import PODS
from hostler.kube.facts.kinds import CSI_NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from hostler.kube.facts.volumes import IN_USE, UNBOUND
from hostler.manifests.scheduler_message import scheduler_message
from hostler.model import Expression, Term
from tests.kube.facts.cluster import FactCluster, kinds, named, node, pod

WITH_CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ZONE = "topology.kubernetes.io/zone"
LOCAL = "kubernetes.io/no-provisioner"


def claim(name="c", *, volume="", storage_class="fast", metadata=None, size="1Gi", **spec):
    body = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **({"volumeName": volume} if volume else {}),
        **spec,
    }
    status = {"phase": "Bound" if volume else "Pending"}
    return named(name, "default", metadata=metadata or (BOUND if volume else {}), spec=body, status=status)


def volume(name="v", *, terms=None, labels=None, storage_class="fast", phase="Available", size="10Gi", **spec):
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    body = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        **affinity,
        **spec,
    }
    return named(name, metadata={"labels": labels or {}}, spec=body, status={"phase": phase})


def storage_class(name="fast", *, mode="WaitForFirstConsumer", provisioner="csi.example.com", topologies=None):
    more = {"allowedTopologies": topologies} if topologies else {}
    return named(name, provisioner=provisioner, volumeBindingMode=mode, **more)


def on(key, *values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def label(key, *values):
    return Expression(key, "In", values)


def spec_with(*objects, **fields):
    """Return the shape of a pod that was put after these objects, each with its resource."""
    cluster = FactCluster()
    for resource, data in objects:
        cluster.put(resource, data)
    (event,) = cluster.pods(pod(**{**WITH_CLAIM, **fields}))
    return event.guest.spec


REFUSED = {
    "no claim": ([], 'persistentvolumeclaim "c" not found'),
    "a claim that goes": ([(VOLUME_CLAIMS, claim(metadata=GONE))], 'persistentvolumeclaim "c" is being deleted'),
    "a lost volume": (
        [(VOLUME_CLAIMS, claim(volume="v"))],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    "bound at once, but not yet": (
        [(STORAGE_CLASSES, storage_class(mode="Immediate")), (VOLUME_CLAIMS, claim())],
        UNBOUND,
    ),
    "no class at all": ([(VOLUME_CLAIMS, claim(storage_class=""))], UNBOUND),
    "half bound": (
        [(STORAGE_CLASSES, storage_class()), (VOLUME_CLAIMS, claim(volume="v", metadata={"x": 1}))],
        UNBOUND,
    ),
    "no such class": ([(VOLUME_CLAIMS, claim())], 'storageclass.storage.k8s.io "fast" not found'),
    "no local disk": (
        [(STORAGE_CLASSES, storage_class(provisioner=LOCAL)), (VOLUME_CLAIMS, claim())],
        "node(s) didn't find available persistent volumes to bind",
    ),
}


@pytest.mark.parametrize(("objects", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_pod_whose_claim_cannot_be_met_is_refused_with_the_reason(objects, reason):
    spec = spec_with(*objects)
    assert (spec.unsupported, spec.prepare) == ((reason,), ())


def test_the_reason_reads_as_kube_scheduler_says_it():
    cluster = FactCluster()
    cluster.nodes(node(), node("n2"))
    (event,) = cluster.pods(pod(**WITH_CLAIM))
    cluster.engine.step(cluster.now)
    line = scheduler_message(cluster.engine.explain("uid-default-a"), event.guest.spec)
    assert line == '0/2 nodes are available: persistentvolumeclaim "c" not found.'


def test_a_pod_is_refused_only_until_its_claim_is_there():
    cluster = FactCluster()
    cluster.pods(pod(**WITH_CLAIM))
    (event,) = cluster.put(VOLUME_CLAIMS, claim())
    assert "storageclass" in event.guest.spec.unsupported[0]
    (event,) = cluster.put(STORAGE_CLASSES, storage_class())
    assert (event.guest.spec.unsupported, event.guest.spec.prepare) == ((), ("volume:default/c",))
    assert cluster.put(VOLUMES, volume(claimRef={"namespace": "default", "name": "c", "uid": "u"})) == []
    (event,) = cluster.put(VOLUME_CLAIMS, claim(volume="v"))
    assert (event.guest.spec.unsupported, event.guest.spec.prepare) == ((), ())
    (event,) = cluster.drop(VOLUMES, "v")
    assert "non-existent" in event.guest.spec.unsupported[0]


def test_a_bound_volume_ties_its_pod_to_the_nodes_that_reach_it():
    reached = volume(terms=[on("rack", "r1"), on("rack", "r2")])
    spec = spec_with((VOLUMES, reached), (VOLUME_CLAIMS, claim(volume="v")))
    assert spec.host_affinity == (Term((label("rack", "r1"),)), Term((label("rack", "r2"),)))


def test_the_terms_of_a_pod_and_of_its_volumes_are_multiplied_out():
    required = {"nodeSelectorTerms": [on("disk", "ssd"), on("rack", "r1")]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    reached = volume(terms=[on("rack", "r1"), on("rack", "r2")])
    spec = spec_with((VOLUMES, reached), (VOLUME_CLAIMS, claim(volume="v")), affinity=affinity)
    ssd, first, second = label("disk", "ssd"), label("rack", "r1"), label("rack", "r2")
    assert spec.host_affinity == (Term((ssd, first)), Term((ssd, second)), Term((first,)), Term((first, second)))


def test_a_term_that_matches_nothing_goes_on_matching_nothing():
    empty = volume(terms=[{"matchExpressions": []}])
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on("a", "b")]}}
    }
    spec = spec_with((VOLUMES, empty), (VOLUME_CLAIMS, claim(volume="v")), affinity=affinity)
    assert spec.host_affinity == (Term(),)


def test_too_many_terms_are_refused_and_not_worked_out():
    volumes = [(VOLUMES, volume(f"v{at}", terms=[on(f"k{at}", str(one)) for one in range(20)])) for at in range(3)]
    claims = [(VOLUME_CLAIMS, claim(f"c{at}", volume=f"v{at}")) for at in range(3)]
    wanted = [{"name": f"d{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in range(3)]
    spec = spec_with(*volumes, *claims, volumes=wanted)
    assert "more than 256 node selector terms" in spec.unsupported[0]


@pytest.mark.parametrize("key", [ZONE, "failure-domain.beta.kubernetes.io/zone"])
def test_zones_that_a_volume_is_labelled_with_count_where_nodes_have_zones(key):
    spec = spec_with((VOLUMES, volume(labels={key: "a__b"})), (VOLUME_CLAIMS, claim(volume="v")))
    within, without = spec.host_affinity
    assert within == Term((label(ZONE, "a", "b"),))
    assert without.matches("n", ())
    assert not without.matches("n", ((ZONE, "c"),))


def test_class_limited_to_topologies_ties_the_pod_to_them():
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]} for zone in ("a", "b")]
    spec = spec_with((STORAGE_CLASSES, storage_class(topologies=topologies)), (VOLUME_CLAIMS, claim()))
    assert spec.host_affinity == (Term((label(ZONE, "a"),)), Term((label(ZONE, "b"),)))
    assert spec.prepare == ("volume:default/c",)


def test_claim_provisioned_for_a_node_stays_with_that_node():
    chosen = claim(metadata={"annotations": {"volume.kubernetes.io/selected-node": "n7"}})
    spec = spec_with((STORAGE_CLASSES, storage_class()), (VOLUME_CLAIMS, chosen))
    assert spec.host_affinity == (Term((), (Expression("metadata.name", "In", ("n7",)),)),)


UNFIT = {
    "too small": {"size": "1Mi"},
    "of another class": {"storage_class": "slow"},
    "taken": {"claimRef": {"namespace": "default", "name": "x", "uid": "u"}},
    "kept for another claim": {"claimRef": {"namespace": "default", "name": "x"}},
    "released": {"phase": "Released"},
    "another mode": {"volumeMode": "Block"},
    "read by many only": {"accessModes": ["ReadOnlyMany"]},
}


@pytest.mark.parametrize("fields", UNFIT.values(), ids=UNFIT)
def test_of_local_disks_only_those_that_fit_the_claim_count(fields):
    disks = [volume("v1", terms=[on("host", "n1")]), volume("v2", terms=[on("host", "n2")], **fields)]
    spec = spec_with(
        (STORAGE_CLASSES, storage_class(provisioner=LOCAL)),
        *((VOLUMES, disk) for disk in disks),
        (VOLUME_CLAIMS, claim()),
    )
    assert spec.host_affinity == (Term((label("host", "n1"),)),)
    assert spec.prepare == ("volume:default/c",)


def test_local_disks_become_one_term_and_claim_selector_counts():
    cluster = FactCluster()
    cluster.put(STORAGE_CLASSES, storage_class(provisioner=LOCAL))
    cluster.put(VOLUME_CLAIMS, claim(selector={"matchLabels": {"disk": "ssd"}}))
    cluster.pods(pod(**WITH_CLAIM))
    for at in range(300):
        cluster.put(VOLUMES, volume(f"v{at}", terms=[on("host", f"n{at:03}")], labels={"disk": "ssd"}))
    assert cluster.put(VOLUMES, volume("hdd", terms=[on("host", "x")], labels={"disk": "hdd"})) == []
    spec = cluster.watched.guest("uid-default-a").spec
    assert spec.host_affinity == (Term((label("host", *(f"n{at:03}" for at in range(300))),)),)


def test_a_disk_that_is_reached_from_everywhere_ties_nobody():
    spec = spec_with(
        (STORAGE_CLASSES, storage_class(provisioner=LOCAL)),
        (VOLUMES, volume("v1", terms=[on("host", "n1")])),
        (VOLUMES, volume("v2")),
        (VOLUME_CLAIMS, claim()),
    )
    assert spec.host_affinity == ()


def test_ephemeral_volume_is_a_claim_named_after_and_owned_by_the_pod():
    cluster = FactCluster()
    cluster.put(STORAGE_CLASSES, storage_class())
    (event,) = cluster.pods(pod(volumes=[{"name": "tmp", "ephemeral": {}}]))
    assert event.guest.spec.unsupported[0].startswith("waiting for ephemeral volume controller")
    (event,) = cluster.put(VOLUME_CLAIMS, claim("a-tmp"))
    assert event.guest.spec.unsupported == ('persistentvolumeclaim "a-tmp" was not created for the pod',)
    owner = {"ownerReferences": [{"kind": "Pod", "name": "a", "uid": "uid-default-a"}]}
    (event,) = cluster.put(VOLUME_CLAIMS, claim("a-tmp", metadata=owner))
    assert (event.guest.spec.unsupported, event.guest.spec.prepare) == ((), ("volume:default/a-tmp",))


def once_pod(cluster):
    cluster.put(VOLUMES, volume())
    cluster.put(VOLUME_CLAIMS, claim(volume="v", accessModes=["ReadWriteOncePod"]))


def test_a_volume_for_one_pod_keeps_others_out_until_that_pod_is_gone():
    cluster = FactCluster()
    once_pod(cluster)
    cluster.pods(pod("holder", nodeName="n1", **WITH_CLAIM))
    (event,) = cluster.pods(pod(**WITH_CLAIM))
    assert event.guest.spec.unsupported == (IN_USE,)
    left, event = cluster.drop(PODS, "holder", "default")
    assert (type(left).__name__, event.guest.spec.unsupported) == ("GuestLeft", ())


def test_first_of_two_pods_waiting_for_a_single_pod_volume_goes_first():
    cluster = FactCluster()
    once_pod(cluster)
    cluster.nodes(node(), node("n2"))
    cluster.pods(pod("b", **WITH_CLAIM), pod("a", **WITH_CLAIM))
    assert [action.guest for action in cluster.engine.step(cluster.now) if type(action).__name__ == "Bind"] == ["b"]
    (bound, refused) = cluster.pods(pod("c", nodeName="n1", **WITH_CLAIM))  # another scheduler was faster
    assert (bound.guest.name, refused.guest.name) == ("c", "b")


def limits(name, count, driver="csi.example.com"):
    return named(name, spec={"drivers": [{"name": driver, "allocatable": {"count": count}}]})


RESOURCE = "attachable-volumes-csi-csi.example.com"


def test_a_node_attaches_no_more_volumes_of_a_driver_than_it_says():
    cluster = FactCluster()
    cluster.nodes(node(), node("other"))
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}
    for at in range(3):
        cluster.put(VOLUMES, volume(f"v{at}", csi={**source["csi"], "volumeHandle": f"h{at}"}))
        cluster.put(VOLUME_CLAIMS, claim(f"c{at}", volume=f"v{at}"))
    wanted = [{"name": f"d{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in range(3)]
    cluster.pods(pod(volumes=wanted[:2], nodeName="n1"), pod("b", volumes=wanted[2:], nodeSelector={"rack": "r"}))
    assert dict(cluster.watched.guest("uid-default-a").spec.requests).get(RESOURCE) is None
    events = cluster.put(CSI_NODES, limits("n1", 2))
    assert kinds(events) == ["HostChanged", "HostChanged", "GuestChanged", "GuestChanged"]
    capacities = {name: dict(host.capacity)[RESOURCE] for name, host in cluster.watched.hosts.items()}
    assert capacities == {"n1": 2, "other": 2**31}
    requests = {uid: dict(cluster.watched.guest(uid).spec.requests)[RESOURCE] for uid in cluster.watched.pods}
    assert requests == {"uid-default-a": 2, "uid-default-b": 1}
    assert kinds(cluster.drop(CSI_NODES, "n1")) == kinds(events)
    assert all(RESOURCE not in dict(host.capacity) for host in cluster.watched.hosts.values())


def test_a_full_node_takes_no_further_volume():
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.put(CSI_NODES, limits("n1", 1))
    cluster.put(STORAGE_CLASSES, storage_class())
    for name in ("c", "d"):
        cluster.put(VOLUME_CLAIMS, claim(name))
    cluster.pods(pod(nodeName="n1", **WITH_CLAIM))
    cluster.pods(pod("b", volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "d"}}]))
    (hold,) = cluster.engine.step(cluster.now)
    assert hold.reasons[0].reason.subject == RESOURCE


def test_resource_claims_are_refused_as_before():
    (event,) = FactCluster().pods(pod(resourceClaims=[{"name": "gpu"}]))
    assert event.guest.spec.unsupported == ("resource claims",)


def test_a_change_of_a_claim_concerns_its_own_pods_only():
    cluster = FactCluster()
    cluster.put(STORAGE_CLASSES, storage_class())
    cluster.pods(pod(**WITH_CLAIM), pod("plain"))
    assert [event.guest.name for event in cluster.put(VOLUME_CLAIMS, claim())] == ["a"]
    assert cluster.put(VOLUME_CLAIMS, claim("unused")) == []
    assert cluster.put(VOLUMES, volume("unrelated", storage_class="other")) == []


def test_unplaceable_pod_does_not_keep_a_single_pod_volume():
    cluster = FactCluster()
    once_pod(cluster)
    both = [*WITH_CLAIM["volumes"], {"name": "x", "persistentVolumeClaim": {"claimName": "missing"}}]
    cluster.pods(pod("stuck", volumes=both))
    (event,) = cluster.pods(pod(**WITH_CLAIM))
    assert event.guest.spec.unsupported == ()
    cluster.put(VOLUMES, volume("v2"))
    (event,) = cluster.put(VOLUME_CLAIMS, claim("missing", volume="v2"))
    assert (event.guest.name, event.guest.spec.unsupported) == ("stuck", (IN_USE,))


def test_a_poison_pod_does_not_keep_others_from_a_volume_for_one_pod():
    cluster = FactCluster()
    once_pod(cluster)
    cluster.pods(pod("first", **WITH_CLAIM))
    (event,) = cluster.pods(pod(**WITH_CLAIM))
    assert event.guest.spec.unsupported == (IN_USE,)
    spoiled, freed = cluster.pods(pod("first", cpu=str(2**52), **WITH_CLAIM))
    assert (spoiled.guest.name, freed.guest.name, freed.guest.spec.unsupported) == ("first", "a", ())


def test_too_many_terms_of_a_pod_and_its_volume_together_are_refused_too():
    required = {"nodeSelectorTerms": [on(f"a{at}", "x") for at in range(20)]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    reached = volume(terms=[on(f"b{at}", "x") for at in range(20)])
    spec = spec_with((VOLUMES, reached), (VOLUME_CLAIMS, claim(volume="v")), affinity=affinity)
    assert "more than 256 node selector terms" in spec.unsupported[0]
