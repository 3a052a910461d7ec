"""Answers as plain data, the same from a command and from the service of a running scheduler."""

from __future__ import annotations

import msgspec

from hostler.model import Decision, EvictionAdvice, Explanation, GangAdvice, HostVerdict

__all__ = ["candidates_as_data", "decision_as_data", "explanation_as_data"]


def decision_as_data(decision: Decision, namespace: str) -> dict[str, object]:
    """Return a decision with all its keys, also those that are empty, and with the pod's namespace."""
    data: dict[str, object] = msgspec.to_builtins(decision)
    whole: dict[str, object] = {"guest": decision.guest, "namespace": namespace}
    whole |= {name: data.get(name, getattr(decision, name)) for name in decision.__struct_fields__}
    whole["host"] = decision.host or None
    whole["total"] = _positive(decision.total)
    return whole


def explanation_as_data(explanation: Explanation, namespace: str, message: str = "") -> dict[str, object]:
    """Return the explanation object as ``hostler explain -o json`` prints it."""
    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    rest: dict[str, object] = msgspec.to_builtins(_tidied(explanation))
    return {
        "guest": explanation.decision.guest,
        "uid": explanation.decision.uid,
        "chosen": explanation.decision.host or None,
        "feasible": [verdict.host for verdict in fitting],
        "scores": {verdict.host: {s.plugin: s.weighted + 0 for s in verdict.scores} for verdict in fitting},
        "message": message or None,
        **rest,
        "decision": decision_as_data(explanation.decision, namespace),
        "verdicts": rest.get("verdicts", []),
        "near_misses": list(explanation.near_misses),
        "cure": rest.get("cure"),
        "eviction": _whole(explanation.eviction),
        "gang": _whole(explanation.gang),
        "wakes": list(explanation.wakes),
        "evicted": None,
    }


def candidates_as_data(explanation: Explanation, namespace: str) -> dict[str, object]:
    """Return the nodes that would take a pod, best first, and those that would not, with all reasons."""
    tidied = _tidied(explanation)
    return {
        "pod": explanation.decision.guest,
        "namespace": namespace,
        "uid": explanation.decision.uid,
        "feasible": [_candidate(verdict) for verdict in tidied.verdicts if verdict.fits],
        "refused": [msgspec.to_builtins(verdict) for verdict in tidied.verdicts if not verdict.fits],
    }


def _candidate(verdict: HostVerdict) -> dict[str, object]:
    return {
        "host": verdict.host,
        "total": verdict.total,
        "scores": {score.plugin: score.weighted for score in verdict.scores},
    }


def _tidied(explanation: Explanation) -> Explanation:
    """Return it without -0.0, which a negative weight makes of 0."""
    replace = msgspec.structs.replace

    def tidy(verdict: HostVerdict) -> HostVerdict:
        scores = tuple(replace(score, raw=score.raw + 0, weighted=score.weighted + 0) for score in verdict.scores)
        return replace(verdict, scores=scores, total=_positive(verdict.total))

    return replace(explanation, verdicts=tuple(map(tidy, explanation.verdicts)))


def _positive(total: int | float | None) -> int | float | None:
    return None if total is None else total + 0


def _whole(advice: EvictionAdvice | GangAdvice | None) -> dict[str, object] | None:
    if advice is None:
        return None
    return {name: msgspec.to_builtins(getattr(advice, name)) for name in advice.__struct_fields__}
