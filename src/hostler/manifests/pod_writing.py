"""Guest to Kubernetes Pod.

What a pod can say is written so that reading it again gives an equal guest. Left out are the engine's own
matters (policy, what must be prepared, the draw key) and what a pod does not say of itself (its tenant,
its siblings: they follow from other objects). Used by exports, and later by ``kube``.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.constraints import node_affinity_of, toleration_of
from hostler.manifests.container_writing import write_containers
from hostler.manifests.gangs import POD_GROUP_LABEL
from hostler.manifests.gpus import gpu_annotations
from hostler.manifests.guest_terms import guest_affinity_of
from hostler.manifests.places import about
from hostler.manifests.spreads import spread_data
from hostler.manifests.times import format_time
from hostler.model import Guest

__all__ = ["guest_to_pod"]

# When a guest was told to end is not known any more, only that it was: any time says that.
_SOME_TIME = format_time(0)


def guest_to_pod(guest: Guest) -> dict[str, object]:
    """Write a guest as a Pod; refuse what a Pod cannot say."""
    spec = guest.spec
    if spec.unsupported:
        raise InputError(
            f"guest {guest.name!r}: its {' and '.join(spec.unsupported)} cannot be written as a Pod",
            hint="only that there are any is known here: use the Pod that it was read from",
        )
    with about(f"guest {guest.name!r}"):
        containers = write_containers(spec)
    parts: dict[str, object] = {
        "nodeName": guest.host,
        "priority": spec.priority,
        "preemptionPolicy": "" if spec.may_preempt else "Never",
        "nodeSelector": dict(spec.host_selector),
        "affinity": {**node_affinity_of(spec), **guest_affinity_of(spec)},
        "tolerations": [toleration_of(item) for item in spec.tolerations],
        "topologySpreadConstraints": [spread_data(item) for item in spec.spread],
        "schedulingGroup": _scheduling_group(guest),
    }
    pod: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(guest),
        "spec": {**containers, **{name: part for name, part in parts.items() if part}},
    }
    if guest.started:
        pod["status"] = {"startTime": format_time(guest.started)}
    return pod


def _metadata(guest: Guest) -> dict[str, object]:
    spec = guest.spec
    parts: dict[str, object] = {
        "uid": guest.uid,
        "resourceVersion": str(guest.version) if guest.version else "",
        "labels": dict(spec.labels),
        "annotations": gpu_annotations(guest),
        "deletionTimestamp": _SOME_TIME if spec.is_leaving else "",
    }
    metadata: dict[str, object] = {"name": guest.name, "namespace": spec.namespace}
    return metadata | {name: part for name, part in parts.items() if part}


def _scheduling_group(guest: Guest) -> dict[str, object]:
    """Name the gang; one of the older form stands in a label already."""
    if not guest.gang:
        return {}
    namespace, _, name = guest.gang.partition("/")
    if namespace != guest.spec.namespace or not name:
        raise InputError(
            f"guest {guest.name!r}: its gang {guest.gang!r} cannot be written as a Pod",
            hint=f"a Pod names a group of its own namespace, {guest.spec.namespace!r}",
        )
    return {} if dict(guest.spec.labels).get(POD_GROUP_LABEL) == name else {"podGroupName": name}
