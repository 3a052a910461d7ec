"""Candidates as plain data, the same from a command and from the service of a running scheduler."""

from __future__ import annotations

import msgspec

from hostler.model import Explanation, HostVerdict
from hostler.model.plain_data import without_minus_zero

__all__ = ["candidates_as_data"]


def candidates_as_data(explanation: Explanation, namespace: str) -> dict[str, object]:
    """Return the nodes that would take a pod, best first, and those that would not, with all reasons."""
    verdicts = [without_minus_zero(verdict) for verdict in explanation.verdicts]
    return {
        "pod": explanation.decision.guest,
        "namespace": namespace,
        "uid": explanation.decision.uid,
        "feasible": [_candidate(verdict) for verdict in verdicts if verdict.fits],
        "refused": [msgspec.to_builtins(verdict) for verdict in verdicts if not verdict.fits],
    }


def _candidate(verdict: HostVerdict) -> dict[str, object]:
    return {
        "host": verdict.host,
        "total": verdict.total,
        "scores": {score.plugin: score.weighted for score in verdict.scores},
    }
