"""Since when each pending pod is known, and which turn decided it: the start of every measured time of a pod.

Times are those of our clock. A pod's own ``creationTimestamp`` has whole seconds, and another machine wrote it. A pod
that has scheduling gates is not known yet, so its wait for others is not counted as ours; kube-scheduler does the same.
Used by ``loop``, which writes it, and by ``process``, which reads it after the bind.

Invariant: an entry exists from a pod's arrival until it is bound by us or gone.
"""

from __future__ import annotations

import msgspec

__all__ = ["PodTimes", "PodTimesBook"]


class PodTimes(msgspec.Struct):
    """One pod: when the watch delivered it, when the turn began that chose its node, and the tries up to then."""

    arrived: int
    decided: int = 0
    tries: int = 1


class PodTimesBook:
    """The times of all pending pods by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, PodTimes] = {}

    def __len__(self) -> int:
        """Return how many pods are known."""
        return len(self._pods)

    def note_arrival(self, uid: str, at: int) -> None:
        """Record that the watch delivered a pod; only the first time counts."""
        self._pods.setdefault(uid, PodTimes(at))

    def note_decision(self, uid: str, began: int, tries: int) -> None:
        """Record the turn that chose a node, and which try of the pod it was."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.decided, pod.tries = began, tries

    def take(self, uid: str) -> PodTimes | None:
        """Remove and return the times of a pod that was bound; None if it is gone already."""
        return self._pods.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._pods.pop(uid, None)
