"""Describe where kube-scheduler and our engine differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kube.oracle.answers import SchedulerAnswer
from tests.kube.oracle.engine_answers import EngineAnswer

__all__ = ["differences", "differences_in_words"]

# What the engine leaves to fronts, or has no part in: they give all nodes the same here.
_NOT_OURS = {"VolumeBinding", "DynamicResources"}
_PREEMPTION = " preemption:"


def differences(theirs: SchedulerAnswer, ours: EngineAnswer, pod: Any) -> list[str]:
    """Return the decisions in which they differ, without the intended deviations."""
    return list(_differences(theirs, ours, meant_to_differ(pod)))


def differences_in_words(theirs: SchedulerAnswer, ours: EngineAnswer) -> list[str]:
    """Return where they give different reasons for the same rejection."""
    message = theirs.message.split(_PREEMPTION)[0].strip()
    is_other = message and ours.message and message != ours.message
    return [f"{theirs.pod}: they say {message!r}, we {ours.message!r}"] if is_other else []


def meant_to_differ(pod: Any) -> set[str]:
    """Return the plugins that are not compared for a pod; the reasons are in docs/kubernetes-deviations.md."""
    # Its NodeResourcesFit forgets what a pod asks for as a whole when it scores the nodes for that pod.
    return {"NodeResourcesFit"} if pod.spec.resources.requests else set()


def _differences(theirs: SchedulerAnswer, ours: EngineAnswer, aside: set[str]) -> Iterator[str]:
    if ours.problems:
        yield f"{theirs.pod}: we could not read {ours.problems}"
    if ours.others:
        yield f"{theirs.pod}: we evict {ours.others} for a pod whose victims are going already"
    if theirs.feasible != ours.feasible:
        only_theirs = sorted(set(theirs.feasible) - set(ours.feasible))
        only_ours = sorted(set(ours.feasible) - set(theirs.feasible))
        yield f"{theirs.pod}: fits for them alone on {only_theirs}, for us alone on {only_ours} ({theirs.message})"
    elif theirs.message:
        yield from _different_victims(theirs, ours)
    else:
        yield from _different_scores(theirs, ours, aside)
        best = max(ours.totals.values())
        if ours.totals[theirs.node] != best and not aside:
            yield f"{theirs.pod}: they took {theirs.node} with {ours.totals[theirs.node]}, our best has {best}"
        if ours.totals[ours.node] != best:
            yield f"{theirs.pod}: we took {ours.node} with {ours.totals[ours.node]}, our best has {best}"


def _different_scores(theirs: SchedulerAnswer, ours: EngineAnswer, aside: set[str]) -> Iterator[str]:
    for node, scores in theirs.scores.items():
        for plugin in sorted({*scores, *ours.scores[node]} - _NOT_OURS - aside):
            # A plugin that has nothing to say may be left out or give 0.
            they, we = scores.get(plugin, 0), ours.scores[node].get(plugin, 0)
            if they != we:
                yield f"{theirs.pod}: {plugin} scores {node} {they} for them, {we} for us"


def _different_victims(theirs: SchedulerAnswer, ours: EngineAnswer) -> Iterator[str]:
    if bool(theirs.nominated) != bool(ours.nominated):
        they = f"{theirs.victims} on {theirs.nominated}" if theirs.nominated else "nobody"
        we = f"{ours.victims} on {ours.nominated}" if ours.nominated else "nobody"
        yield f"{theirs.pod}: they evict {they}, we {we} ({theirs.message})"
        return
    if not theirs.nominated:
        return
    if theirs.node not in ("", theirs.nominated):
        yield f"{theirs.pod}: nominated for {theirs.nominated}, bound to {theirs.node}"
    choice = ours.choices.get(theirs.nominated)
    if choice is None or choice.victims != theirs.victims:
        we = str(choice.victims) if choice else "nobody"
        yield f"{theirs.pod}: on {theirs.nominated} they evict {theirs.victims}, we would evict {we}"
    elif choice.cost != min(one.cost for one in ours.choices.values()):
        yield (
            f"{theirs.pod}: they evict {theirs.victims} on {theirs.nominated} at {choice.cost}, "
            f"we {ours.victims} on {ours.nominated} at {ours.choices[ours.nominated].cost}"
        )
    if ours.choices[ours.nominated].victims != ours.victims:
        yield f"{theirs.pod}: our dry run and our decision on {ours.nominated} differ"
