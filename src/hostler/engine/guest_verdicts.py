"""Why a host refuses a guest because of other guests, and which ones: the long form of the kernel's answer."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.engine.asks import Ask
from hostler.engine.kernels_layout import ASK_AFFINITY, ASK_SPREAD
from hostler.engine.reasons import full_name
from hostler.engine.state import State
from hostler.model import Failure

__all__ = ["guest_failures"]

_NAMED = 3  # guests in the way that are named


def guest_failures(state: State, slot: int, row: int) -> Iterator[Failure]:
    """Return what guests on this or other hosts forbid, in the order in which the kernel looks."""
    found = state.cache.guest_filters(slot)
    filters = list(zip(found.counters, found.asks, strict=True))
    near = sum(state.cluster.counters.total(number) for number, ask in filters if ask.kind == ASK_AFFINITY)
    is_first = found.may_be_first and not near
    seen = set()
    for number, ask in filters:
        failure = _failure(state, ask, number, row, is_first=is_first)
        if failure is not None and failure.reason not in seen:
            seen.add(failure.reason)
            yield failure


def _failure(state: State, ask: Ask, number: int, row: int, *, is_first: bool) -> Failure | None:
    assert ask.reason is not None
    counters = state.cluster.counters
    count = counters.count(number, row)
    if count < 0:
        return Failure(reason=ask.reason_absent) if ask.reason_absent is not None else None
    if ask.kind == ASK_AFFINITY:
        return Failure(reason=ask.reason) if count == 0 and not is_first else None
    if ask.kind == ASK_SPREAD:
        max_skew, itself, min_domains = ask.params
        skew = count + itself - counters.least(number, min_domains)
        if skew <= max_skew:
            return None
        return Failure(reason=ask.reason, needed=skew, free=max_skew, missing=skew - max_skew)
    if count == 0:
        return None
    return Failure(reason=ask.reason, by=_in_the_way(state, number, row))


def _in_the_way(state: State, number: int, row: int) -> tuple[str, ...]:
    """Name the first guests that a counter counts in the domain of a row."""
    cluster = state.cluster
    names = []
    for shape, other in cluster.counters.counted_near(number, row):
        for uid, held in cluster.guests_on[other].items():
            if held.number == shape:
                names.append(full_name(state.guests[uid].guest))
    return tuple(sorted(names)[:_NAMED])
