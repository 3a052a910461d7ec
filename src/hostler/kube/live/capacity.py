"""How many more copies of a pod fit, by a running scheduler: it plans copies until one is unschedulable.

Used by ``hostler kube capacity --via``. Copies are the pods of a job, which no selector counts as siblings. The
scheduler only plans: nothing is written and no pod is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hostler.config import Document
from hostler.errors import InputError
from hostler.kube.api.access import Access
from hostler.kube.live.plan import PlannedPod, PodPlan
from hostler.kube.live.planned_objects import MOST_PODS, expand_lists
from hostler.kube.live.via import ask_scheduler
from hostler.manifests import Pod, pod_to_guest, read_pod
from hostler.manifests.pods.gangs import POD_GROUP_LABEL, SEED_POD_GROUP
from hostler.model import Decision, DecisionNote, Guest
from hostler.model.notes import RECORDED
from hostler.model.vocabulary import with_notes
from hostler.queries import Fit

__all__ = ["count_copies_via"]

Json: TypeAlias = Mapping[str, Any]

_FIRST_BATCH = 64
_GROWTH = 8
_MAKERS = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")


async def count_copies_via(
    access: Access, via: str, documents: Sequence[Document], namespace: str, *, source: str, most: int
) -> tuple[Fit, tuple[str, ...]]:
    """Ask a running scheduler for plans of more and more copies until one does not fit; return its notes too.

    ``source`` names the documents in errors.
    """
    where = namespace or access.namespace
    others, pod = _split(documents, source)
    most = min(most, MOST_PODS)
    count = min(_FIRST_BATCH, most)
    plan = await _plan(access, via, where, others, pod, count)
    while plan.is_complete and count < most:
        count = min(count * _GROWTH, most)
        plan = await _plan(access, via, where, others, pod, count)
    placed = Counter(one.node for one in plan.pods if one.node)
    most_first = sorted(placed.items(), key=lambda item: (-item[1], item[0]))
    refused = next((one for one in plan.pods if not one.node), None)
    fit = Fit(
        guest=_guest(pod, where),
        count=placed.total(),
        is_limit=refused is None,
        is_by_guests_alone=False,
        pending=0,  # a plan places them too, but does not say so
        pending_placed=0,
        per_host=(*most_first,),
        next=None if refused is None else _refusal(refused),
    )
    return fit, tuple(plan.notes)


def _split(documents: Sequence[Document], source: str) -> tuple[list[Json], Json]:
    """Return the dependencies in the documents of a file, and the one pod in it or of its workload."""
    others: list[Json] = []
    pods: list[Json] = []
    for item in expand_lists([document.data for document in documents]):  # type: ignore[misc]
        kind = item.get("kind")
        if kind == "Pod":
            pods.append(item)
        elif kind in _MAKERS:
            template = (item.get("spec") or {}).get("template") or {}
            name = f"{(item.get('metadata') or {}).get('name', 'pod')}-0"
            own = {**(template.get("metadata") or {}), "name": name}
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template.get("spec") or {}})
        else:
            others.append(item)
    if len(pods) != 1:
        raise InputError(f"{source}: it has {len(pods)} podsor workloads", hint="give a file with one pod")
    return others, pods[0]


async def _plan(access: Access, via: str, namespace: str, others: Sequence[Json], pod: Json, count: int) -> PodPlan:
    """Request a plan of this many copies: the pods of one job, which no selector counts as siblings.

    None of them is in a gang, which would be placed completely or not at all.
    """
    own, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    name, space = f"{own.get('name', 'pod')}-copy", own.get("namespace") or namespace
    spec.pop("schedulingGroup", None)
    for field, key in (("labels", POD_GROUP_LABEL), ("annotations", SEED_POD_GROUP)):
        own[field] = {label: value for label, value in (own.get(field) or {}).items() if label != key}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": space},
        "spec": {"parallelism": count, "template": {"metadata": own, "spec": spec}},
    }
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [*others, job]})
    query = {"namespace": namespace, "preempt": "false"}
    return msgspec.convert(await ask_scheduler(access, via, "/v1/plan", query=query, body=body), PodPlan)


def _guest(item: Json, namespace: str) -> Guest:
    pod: Pod = read_pod(item)
    metadata = msgspec.structs.replace(pod.metadata, namespace=pod.metadata.namespace or namespace)
    guest, _ = pod_to_guest(msgspec.structs.replace(pod, metadata=metadata))
    if guest is None:
        raise InputError("the pod of the file has ended", hint="give a pod that has not ended")
    return guest


def _refusal(pod: PlannedPod) -> Decision:
    """Return the answer about the first unschedulable copy as a decision."""
    decision = Decision(
        guest=pod.name,
        uid=f"{pod.namespace}/{pod.name}",
        seq=0,
        at=0,
        policy="",
        state="waiting",
    )
    return with_notes(decision, [DecisionNote(RECORDED, said=pod.reason.removesuffix("."))])
