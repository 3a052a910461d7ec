"""How many more of a pod fit, asked of a running scheduler: it plans copies until one is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from hostler.cli.capacities import Fit
from hostler.cli.terminal import note
from hostler.config import read_documents
from hostler.errors import InputError
from hostler.kube.api.access import Access, read_access
from hostler.kube.live.planned import MOST_PODS, unpacked
from hostler.kube.live.planning import Plan, PlannedPod
from hostler.kube.live.via import ask_scheduler
from hostler.manifests import Pod, pod_to_guest, read_pod
from hostler.manifests.gangs import POD_GROUP_LABEL, SEED_POD_GROUP
from hostler.model import Decision, Guest

__all__ = ["count_via"]

Json: TypeAlias = Mapping[str, Any]

FIRST_BATCH = 64
_GROWTH = 8
_MAKERS = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job")


def count_via(via: str, file: str, namespace: str, kubeconfig: Path | None, context: str, *, most: int) -> Fit:
    """Ask a running scheduler for plans of more and more copies, until one of them is refused."""
    access = read_access(kubeconfig, context)
    where = namespace or access.namespace
    others, pod = _split(file)
    most = min(most, MOST_PODS)
    count = min(FIRST_BATCH, most)
    plan = asyncio.run(_plan(access, via, where, others, pod, count))
    while plan.is_complete and count < most:
        count = min(count * _GROWTH, most)
        plan = asyncio.run(_plan(access, via, where, others, pod, count))
    for line in plan.notes:
        note(line)
    placed = Counter(one.node for one in plan.pods if one.node)
    most_first = sorted(placed.items(), key=lambda item: (-item[1], item[0]))
    refused = next((one for one in plan.pods if not one.node), None)
    return Fit(
        guest=_guest(pod, where),
        count=placed.total(),
        is_limit=refused is None,
        is_by_guests_alone=False,
        pending=0,  # a plan places them too, but does not say so
        pending_placed=0,
        per_host=(*most_first,),
        next=None if refused is None else _refusal(refused),
    )


def _split(file: str) -> tuple[list[Json], Json]:
    """Return what a file brings along, and the one pod in it, or the pod that something in it makes."""
    others: list[Json] = []
    pods: list[Json] = []
    for item in unpacked([document.data for document in read_documents([file])]):  # type: ignore[misc]
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
        raise InputError(f"{file}: it has {len(pods)} pods, or things that make them", hint="give a file with one pod")
    return others, pods[0]


async def _plan(access: Access, via: str, namespace: str, others: Sequence[Json], pod: Json, count: int) -> Plan:
    """Ask for a plan of so many copies: a job makes as many equal pods, and no selector counts them as siblings.

    None of them is in a gang, which would let in all or none.
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
    return msgspec.convert(await ask_scheduler(access, via, "/v1/plan", query=query, body=body), Plan)


def _guest(item: Json, namespace: str) -> Guest:
    pod: Pod = read_pod(item)
    metadata = msgspec.structs.replace(pod.metadata, namespace=pod.metadata.namespace or namespace)
    guest, _ = pod_to_guest(msgspec.structs.replace(pod, metadata=metadata))
    if guest is None:
        raise InputError("the pod of the file has ended", hint="give one that is to be placed")
    return guest


def _refusal(pod: PlannedPod) -> Decision:
    """Return the answer about the first copy that was refused, as the decision that it is."""
    return Decision(
        guest=pod.name,
        uid=f"{pod.namespace}/{pod.name}",
        seq=0,
        at=0,
        policy="",
        state="waiting",
        note=pod.reason.removesuffix("."),
    )
