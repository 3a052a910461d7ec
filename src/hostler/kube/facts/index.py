"""Indexes of pods: by namespace, owner, group, claim, and node with devices. Used by ``pods``.

A change of a service or a claim must not scan ten thousand pods, and the order of pods must be the same in every run.
So dicts are used in place of sets.
"""

from __future__ import annotations

from typing import TypeAlias

from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.metadata import controller_of
from hostler.manifests.places import DEFAULT_NAMESPACE
from hostler.manifests.pods.gpus import GPU_INDEX

__all__ = ["Index", "Mark", "claims_of", "marks_of"]

Mark: TypeAlias = tuple[str, ...]
ClaimKey: TypeAlias = tuple[str, str]  # namespace and name


class Index:
    """Pods by their keys."""

    def __init__(self) -> None:
        self._pods: dict[Mark, dict[str, None]] = {}
        self._marks: dict[str, tuple[Mark, ...]] = {}

    def put(self, uid: str, marks: tuple[Mark, ...]) -> None:
        """Give a pod these keys and no others."""
        before = self._marks.get(uid, ())
        if before == marks:
            return
        for mark in before:
            found = self._pods[mark]
            del found[uid]
            if not found:
                del self._pods[mark]
        if not marks:
            del self._marks[uid]
            return
        self._marks[uid] = marks
        for mark in marks:
            self._pods.setdefault(mark, {})[uid] = None

    def at(self, *mark: str) -> tuple[str, ...]:
        """Return the pods that have a key, in the order in which they got it."""
        return tuple(self._pods.get(mark, ()))


def claims_of(pod: Pod) -> dict[ClaimKey, bool]:
    """Name the claims of a pod, with whether each is ephemeral (made for this pod)."""
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    found: dict[ClaimKey, bool] = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found[namespace, volume.persistent_volume_claim.claim_name] = False
        elif volume.ephemeral is not None:
            found[namespace, f"{pod.metadata.name}-{volume.name}"] = True
    return found


def marks_of(pod: Pod, group: str, *, is_pending: bool) -> tuple[Mark, ...]:
    """Return the keys of a pod; ``is_pending``: it waits for us, so its dependencies still matter."""
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    marks: dict[Mark, None] = {}
    if is_pending:
        marks["namespace", namespace] = None
        owner = controller_of(pod.metadata)
        if owner is not None:
            marks["owner", namespace, owner.kind, owner.name] = None
    elif GPU_INDEX in pod.metadata.annotations:
        marks["devices", pod.spec.node_name] = None
    if group:
        marks["group", group] = None
    if pod.spec.priority is None:
        marks[("unpriced",)] = None
    if pod.spec.volumes:
        claims = claims_of(pod)
        if claims:
            marks[("claims",)] = None
        for key in claims:
            marks["claim", *key] = None
    return tuple(marks)
