"""A host that left is neither counted nor chosen, also by what was decided before it left."""

from __future__ import annotations

from hostler.engine import Engine
from hostler.engine.gangs.search import search
from hostler.engine.state.transaction import Transaction
from hostler.model import Defer, HostLeft
from tests.engine.fleet import arrive, binds, engine_with, host, step
from tests.engine.gang_instances import form, wants

SIZES = (5, 4, 4, 3, 2, 2)  # fit on two hosts of ten in one way only, which the largest-first order misses


def _left(*stay: str) -> Engine:
    """Return an engine that has looked at a large host, which then left, for every shape of the gang."""
    engine = engine_with([host("a", cpu=10_000), host("large", cpu=100_000), host("b", cpu=10_000)], "first_fit")
    form(engine, "team", len(SIZES))
    arrive(engine, *(wants(f"t{i}", 1000 * n, gang="team") for i, n in enumerate(SIZES)))
    state = engine.state
    for record in list(state.guests.values()):
        codes, _ = state.cache.codes(state.cache.slot(state.shape(record), 0))
        assert codes.tolist() == [0, 0, 0]
    for name in {"a", "b", "large"} - set(stay):
        engine.apply(HostLeft(name=name))
    return engine


def test_a_search_for_a_gang_uses_only_hosts_that_are_there():
    engine = _left("a", "b")
    found = binds(step(engine, 1))
    assert sorted(uid for uid in found if uid.startswith("t")) == [f"t{i}" for i in range(len(SIZES))]
    assert set(found.values()) <= {"a", "b"}


def test_a_search_does_not_see_rows_of_hosts_that_left():
    engine = _left("a")
    state = engine.state
    members = [(record, 0) for record in state.guests.values() if record.guest.gang]
    with Transaction(state) as transaction:
        assert search(state, transaction, members, len(SIZES)) is None
        found = search(state, transaction, members, 2)
    assert found is not None
    assert {placement.row for placement in found} == {state.cluster.row_of["a"]}


def test_a_gang_that_is_refused_counts_only_hosts_that_are_there():
    holds = [action for action in step(_left("a"), 1) if isinstance(action, Defer) and action.uid.startswith("t")]
    assert holds
    assert {hold.hosts for hold in holds} == {1}
