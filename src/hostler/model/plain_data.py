"""Decisions and explanations as plain data, the same for every command and page.

All keys are present, including empty ones. -0.0, the result of a negative weight times 0, becomes 0. Used by the
commands and by the pages of a running scheduler.
"""

from __future__ import annotations

import msgspec

from hostler.model.decisions import Decision, EvictionAdvice, Explanation, GangAdvice, HostVerdict

__all__ = ["decision_as_data", "explanation_as_data", "without_minus_zero"]


def decision_as_data(decision: Decision, namespace: str) -> dict[str, object]:
    """Return a decision with all its keys, including empty ones, and with its guest's namespace."""
    data: dict[str, object] = msgspec.to_builtins(decision)
    whole: dict[str, object] = {"guest": decision.guest, "namespace": namespace}
    whole |= {name: data.get(name, getattr(decision, name)) for name in decision.__struct_fields__}
    whole["host"] = decision.host or None
    whole["total"] = _positive(decision.total)
    return whole


def explanation_as_data(
    explanation: Explanation, namespace: str, message: str | None, evicted: object = None
) -> dict[str, object]:
    """Return the explanation with its feasible hosts and weighted scores at the top.

    ``message`` is the line in kube-scheduler's words, or None if there is none. ``evicted`` says for which guest it was
    evicted.
    """
    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    data: dict[str, object] = {
        "guest": explanation.decision.guest,
        "uid": explanation.decision.uid,
        "chosen": explanation.decision.host or None,
        "feasible": [verdict.host for verdict in fitting],
        "scores": {verdict.host: {s.plugin: s.weighted + 0 for s in verdict.scores} for verdict in fitting},
    }
    if message is not None:
        data["message"] = message or None
    verdicts = tuple(map(without_minus_zero, explanation.verdicts))
    rest: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(explanation, verdicts=verdicts))
    return {
        **data,
        **rest,
        "decision": decision_as_data(explanation.decision, namespace),
        "verdicts": rest.get("verdicts", []),
        "near_misses": list(explanation.near_misses),
        "cure": rest.get("cure"),
        "eviction": _whole(explanation.eviction),
        "gang": _whole(explanation.gang),
        "wakes": list(explanation.wakes),
        "wake_events": rest.get("wake_events", []),
        "ignored": list(explanation.ignored),
        "evicted": msgspec.to_builtins(evicted),
    }


def without_minus_zero(verdict: HostVerdict) -> HostVerdict:
    """Return the verdict without -0.0."""
    replace = msgspec.structs.replace
    scores = tuple(replace(score, raw=score.raw + 0, weighted=score.weighted + 0) for score in verdict.scores)
    return replace(verdict, scores=scores, total=_positive(verdict.total))


def _positive(total: int | float | None) -> int | float | None:
    return None if total is None else total + 0


def _whole(advice: EvictionAdvice | GangAdvice | None) -> dict[str, object] | None:
    """Return advice with all its keys, including empty ones."""
    if advice is None:
        return None
    return {name: msgspec.to_builtins(getattr(advice, name)) for name in advice.__struct_fields__}
