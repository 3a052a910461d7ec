"""Rules about other guests: how many one guest may have, and what their counters may take of the memory."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.engine.cache.wide_rows import DEFAULT_BUDGET
from hostler.errors import FactError
from hostler.model import Expression, GuestArrived, GuestTerm, Selector
from hostler.model.guests import MAX_TERMS
from tests.engine.fleet import arrive, binds, engine_with, host, step
from tests.engine.gang_instances import wants

BUDGET = DEFAULT_BUDGET.pool_bytes


def terms(count: int, first: int = 0) -> tuple[GuestTerm, ...]:
    """Return so many distinct terms, each about guests that there are none of."""
    return tuple(
        GuestTerm(topology="name", selector=Selector((Expression("app", "In", (f"x{number}",)),)))
        for number in range(first, first + count)
    )


def about_all(count: int, first: int) -> tuple[GuestTerm, ...]:
    """Return so many distinct terms that all mean every guest with the label ``app``."""
    return tuple(
        GuestTerm(topology="zone", selector=Selector((Expression("app", "NotIn", (f"x{number}",)),)))
        for number in range(first, first + count)
    )


def test_guest_with_too_many_terms_is_rejected_and_leaves_nothing():
    engine = engine_with([host("a", cpu=1000)], "first_fit")
    before = engine.checkpoint()
    with pytest.raises(FactError, match=f"at most {MAX_TERMS}"):
        engine.apply(GuestArrived(guest=wants("many", 1, anti_affinity=terms(MAX_TERMS + 1))))
    assert engine.checkpoint() == before


def crowd(guests: int, each: int, hosts: int) -> Engine:
    engine = engine_with([host(f"h{n}", cpu=1000, labels={"name": f"h{n}"}) for n in range(hosts)], "first_fit")
    for number in range(guests):
        arrive(engine, wants(f"g{number}", 1, app=f"g{number}", anti_affinity=terms(each, number * each)))
    return engine


def test_memory_for_thousands_of_terms_is_bounded():
    """40 guests with 3,000 terms each took 1.6 GB on 1,000 hosts. Now a guest has at most 1,024, and the counters of
    all are emptied between runs when they take more than their budget; one run needs 2,048 terms or one guest."""
    engine = crowd(40, MAX_TERMS, 1000)
    worst = 0
    for _ in range(40):
        step(engine, 0, 1)
        worst = max(worst, engine.state.cache.peer_bytes)
    assert len(list(engine.guests())) == 40
    counters = 4 * 2048  # of one run, and tables grow to twice what they need
    assert worst <= BUDGET + counters * 2 * 4 * 1024 + 2 * 16 * 4096 * 64
    step(engine, 0)
    engine.state.cache.trim()
    assert engine.state.cache.peer_bytes <= BUDGET


def test_emptied_counters_change_no_decision():
    """An engine whose counters are emptied before every guest decides like one that keeps them."""
    kept, emptied = (crowd(12, 20, 6) for _ in range(2))
    for engine in (kept, emptied):
        for number in range(8):
            arrive(engine, wants(f"late-{number}", 1, app="late", anti_affinity=about_all(3, number % 2)))
    for _ in range(20):
        emptied.state.cache.empty()
        assert step(emptied, 0, 1) == step(kept, 0, 1)
    assert emptied.checkpoint() == kept.checkpoint()
    assert binds(step(kept, 1)) == binds(step(emptied, 1))
