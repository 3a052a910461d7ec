"""Owners among the objects of one input: which pods a workload already has.

An owner is identified by kind and name, and by uid if both sides have one. If the input has only Deployments and pods,
the ReplicaSets between them are recognized by their names, which end in the pods' template hash; likewise Jobs, whose
names are that of the CronJob and a number. Used by ``replicas`` and ``missing_pods``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.metadata import Metadata, OwnerReference, controller_of
from hostler.manifests.objects.workloads import Deployment, ReplicaSet, Template
from hostler.manifests.places import DEFAULT_NAMESPACE

__all__ = ["Owners", "has_ended", "is_active"]

_Key: TypeAlias = tuple[str, str, str]  # namespace, kind, name
_TEMPLATE_HASH = "pod-template-hash"
# Who makes whom: the only workloads that make workloads, so a circle of owners in a file cannot be walked.
_MAKES = {"Deployment": "ReplicaSet", "CronJob": "Job"}


def has_ended(pod: Pod) -> bool:
    """Say whether a pod has ended."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Say whether a pod counts for its workload: it has not ended and is not being deleted."""
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


class Owners:
    """The pods and workloads of an input, by their controllers."""

    def __init__(
        self, workloads: Iterable[tuple[str, Metadata]], pods: Iterable[Pod], sets: Iterable[ReplicaSet] = ()
    ) -> None:
        self._sets = {_key("ReplicaSet", one.metadata, one.metadata.name): one for one in sets}
        self._uids: dict[_Key, str] = {}
        self._children: dict[_Key, list[tuple[OwnerReference, Metadata]]] = {}
        self._pods: dict[_Key, list[tuple[OwnerReference, Pod]]] = {}
        for kind, metadata in workloads:
            self._uids[_key(kind, metadata, metadata.name)] = metadata.uid
            owner = controller_of(metadata)
            if owner is not None and _MAKES.get(owner.kind) == kind:
                self._children.setdefault(_key(owner.kind, metadata, owner.name), []).append((owner, metadata))
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is not None:
                owner = self._known_owner(owner, pod.metadata)
                self._pods.setdefault(_key(owner.kind, pod.metadata, owner.name), []).append((owner, pod))

    def pods_of(self, kind: str, metadata: Metadata) -> list[Pod]:
        """Return the pods that a workload controls, directly or through another workload."""
        key = _key(kind, metadata, metadata.name)
        found = [pod for owner, pod in self._pods.get(key, ()) if _is_same(owner.uid, metadata.uid)]
        for child in self._children_of(kind, metadata):
            found += self.pods_of(_MAKES[kind], child)
        return found

    def has_made_any(self, kind: str, metadata: Metadata) -> bool:
        """Say whether a workload created anything in the input."""
        return bool(self._children_of(kind, metadata) or self.pods_of(kind, metadata))

    def set_of(self, deployment: Deployment) -> ReplicaSet | None:
        """Return the current ReplicaSet of a Deployment: the one with the same template, except the hash."""
        metadata, wanted = deployment.metadata, deployment.spec.template
        children = self._children_of("Deployment", metadata)
        sets = [self._sets.get(_key("ReplicaSet", child, child.name)) for child in children]
        return next((one for one in sets if one is not None and _without_hash(one.spec.template) == wanted), None)

    def is_made_by_given(self, metadata: Metadata) -> bool:
        """Say whether a workload of the input controls an object."""
        owner = controller_of(metadata)
        uid = self._uids.get(_key(owner.kind, metadata, owner.name)) if owner is not None else None
        return owner is not None and uid is not None and _is_same(owner.uid, uid)

    def _children_of(self, kind: str, metadata: Metadata) -> list[Metadata]:
        entries = self._children.get(_key(kind, metadata, metadata.name), ())
        return [child for owner, child in entries if _is_same(owner.uid, metadata.uid)]

    def _known_owner(self, owner: OwnerReference, metadata: Metadata) -> OwnerReference:
        """Return the owner's creator if only that is in the input."""
        if _key(owner.kind, metadata, owner.name) in self._uids:
            return owner
        name, _, suffix = owner.name.rpartition("-")
        match owner.kind:
            case "ReplicaSet" if suffix and suffix == metadata.labels.get(_TEMPLATE_HASH):
                return OwnerReference("Deployment", name)
            case "Job" if suffix.isascii() and suffix.isdecimal():
                maker = OwnerReference("CronJob", name)
                return maker if _key("CronJob", metadata, name) in self._uids else owner
        return owner


def _key(kind: str, metadata: Metadata, name: str) -> _Key:
    """Name an object of the same namespace."""
    return metadata.namespace or DEFAULT_NAMESPACE, kind, name


def _without_hash(template: Template) -> Template:
    """Return a template without the hash, as the Deployment has it."""
    replace, metadata = msgspec.structs.replace, template.metadata
    labels = {key: value for key, value in metadata.labels.items() if key != _TEMPLATE_HASH}
    return replace(template, metadata=replace(metadata, labels=labels))


def _is_same(uid: str, other: str) -> bool:
    """Compare two uids; an unknown uid equals any."""
    return not uid or not other or uid == other
