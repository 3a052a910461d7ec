"""Who fits again, or may evict where it could not before, is tried in time: nominated guests, gangs, preemptors."""

from __future__ import annotations

import numpy as np
import pytest

from hostler.engine import Engine, Registry
from hostler.engine.journals.journal import Recorder, read_journal, replay
from hostler.errors import PluginError
from hostler.model import (
    Bind,
    Evict,
    Expression,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestFailed,
    GuestLeft,
    GuestTerm,
    HostChanged,
    HostJoined,
    PluginUse,
    PreemptionRules,
    Prepared,
    Quota,
    QuotasChanged,
    Selector,
    amounts,
    labels,
)
from tests.engine.fleet import GIB, SECOND, arrive, binds, declared, engine_with, guest, host, place, policy, spec

PREEMPTING = policy("spread", preemption=PreemptionRules())


def evicted(actions) -> set[str]:
    return {action.uid for action in actions if isinstance(action, Evict)}


def life(engine: Engine, start: int, end: int) -> list:
    """Step whenever something is due; return everything that was decided."""
    found, at = [], start
    for _ in range(1000):
        found += engine.step(at)
        due = engine.next_due()
        if due is None or due > end:
            return found
        at = max(due, at)
    raise AssertionError("it is due again and again")


# -- nominated guests --------------------------------------------------------------------------------------------------


def with_a_stuck_victim() -> Engine:
    """Return an engine in which P waits on n1 for a victim that never ends, and n2 is full."""
    engine = engine_with([host("n1", cpu=1000), host("n2", cpu=1000)], PREEMPTING)
    arrive(engine, guest("stuck", host="n1", version=1), guest("r", host="n2", version=1, priority=2000))
    assert evicted(place_all(engine, guest("P", priority=1000))) == {"stuck"}
    place(engine, *(guest(f"s{i}", may_preempt=False) for i in range(5)), now=SECOND)
    return engine


def place_all(engine: Engine, *guests) -> list:
    for each in guests:
        engine.apply(GuestArrived(guest=each))
    return engine.step(engine.now)


def test_preemptor_of_an_endless_victim_gets_the_first_room_elsewhere():
    engine = with_a_stuck_victim()
    changed = host("n1", cpu=1000, labels=labels({"x": "1"}), version=2)
    engine.apply(HostChanged(host=changed, at=20 * SECOND))
    life(engine, 20 * SECOND, 22 * SECOND)
    engine.apply(GuestLeft(uid="r", at=22 * SECOND))
    assert binds(life(engine, 22 * SECOND, 24 * SECOND)) == {"P": "n2"}


def test_a_nominated_guest_is_not_tried_while_its_host_cannot_take_it():
    engine = with_a_stuck_victim()
    tried = engine.decision("P").attempt
    for second in range(20, 60):
        changed = host("n1", cpu=1000, labels=labels({"x": str(second)}), version=second)
        engine.apply(HostChanged(host=changed, at=second * SECOND))
        life(engine, second * SECOND, (second + 1) * SECOND)
    assert engine.decision("P").attempt == tried


# -- gangs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [4, 200])
def test_gang_of_higher_priority_gets_room_before_guests_without_backoff(members):
    anti = (GuestTerm(topology="host", selector=Selector((Expression("app", "In", ("g",)),))),)
    hosts = [host("big", cpu=1000 * members, memory=members * GIB, labels=labels({"host": "big"}))]
    small = [f"n{i}" for i in range(members - 1)]
    hosts += [host(name, cpu=1000, labels=labels({"host": name, "zone": "A"})) for name in small]
    engine = engine_with(hosts)
    arrive(engine, *(guest(f"r-{name}", host=name, version=1) for name in small))
    engine.apply(GangChanged(gang=Gang(name="g", min_count=members, priority=1000)))
    shape = spec(labels=labels({"app": "g"}), anti_affinity=anti, priority=1000)
    arrive(engine, *(Guest(name=f"g{i}", uid=f"g{i}", gang="default/g", spec=shape) for i in range(members)))
    arrive(engine, *(guest(f"s{i}", selector={"zone": "A"}) for i in range(members + 5)))
    life(engine, 0, SECOND)
    for second in (2, 3, 4, 5):  # it is rejected again and again, although by amounts there is room
        grown = host("big", cpu=1000 * members + second, memory=members * GIB, labels=hosts[0].labels, version=second)
        engine.apply(HostChanged(host=grown))
        life(engine, second * SECOND, second * SECOND)
    for name in small:
        engine.apply(GuestLeft(uid=f"r-{name}", at=6 * SECOND))
    found = binds(life(engine, 6 * SECOND, 6 * SECOND))
    assert {uid for uid in found if not uid.startswith("s")} == {f"g{i}" for i in range(members)}
    assert len(found) == members


# -- those who may evict -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["uncordon", "grow"])
def test_host_full_of_lower_guests_is_preempted_when_it_gets_usable(how):
    closed = host("n1", cpu=1000, cordoned=how == "uncordon")
    engine = engine_with([closed], PREEMPTING)
    arrive(engine, guest("low", host="n1", version=1, cpu=1000))
    wanted = 1000 if how == "uncordon" else 2000
    assert not evicted(place_all(engine, guest("P", priority=1000, cpu=wanted)))
    engine.apply(HostChanged(host=host("n1", cpu=max(wanted, 1000), version=2), at=60 * SECOND))
    assert evicted(life(engine, 60 * SECOND, 61 * SECOND)) == {"low"}


@pytest.mark.parametrize("means", ["preemption", "reclaim"])
def test_a_quota_that_allows_a_guest_again_lets_it_evict(means):
    rules = {"preemption": PreemptionRules()} if means == "preemption" else {"reclaim": True}
    engine = engine_with([host("n1", cpu=4000), host("n2", cpu=1000)], policy("spread", **rules))
    quotas = (("a", 2000, 2000), ("b", 2000, 4000))
    engine.apply(
        QuotasChanged(
            quotas=tuple(Quota(tenant=t, min=amounts({"cpu": a}), max=amounts({"cpu": b})) for t, a, b in quotas)
        )
    )
    arrive(engine, guest("a1", tenant="a", host="n2", version=1), guest("a0", tenant="a", host="n1", version=1))
    arrive(engine, *(guest(f"b{i}", tenant="b", host="n1", version=1) for i in range(3)))
    assert not evicted(place_all(engine, guest("A", tenant="a", priority=10)))
    engine.apply(HostChanged(host=host("n2", cpu=1000, cordoned=True, version=2), at=50 * SECOND))
    engine.apply(GuestLeft(uid="a1", at=50 * SECOND))
    assert len(evicted(life(engine, 50 * SECOND, 51 * SECOND))) == 1


# -- a plugin that fails on another guest ------------------------------------------------------------------------------


class FailsOnTwoCpus:
    """Fails on guests of two CPUs."""

    name = "bad"
    reasons = declared("bad", "is bad", cures=frozenset())
    error: type[BaseException] = ZeroDivisionError

    def __init__(self, view, args):
        pass

    def evaluate(self, spec, rows):
        if dict(spec.requests).get("cpu") == 2000:
            raise self.error("x\udcff")
        return np.zeros(len(rows), np.int64)


def with_a_bad_plugin(plugin=FailsOnTwoCpus) -> Engine:
    plain = policy("spread")
    bad = policy("spread", filters=(*plain.filters, PluginUse("bad")))
    return Engine([bad], registry=Registry({"bad": plugin}))


def test_ready_binds_go_out_although_a_plugin_fails():
    engine = with_a_bad_plugin()
    engine.apply(HostJoined(host=host("n1", cpu=8000)))
    place(engine, guest("vol", prepare=("disk",)), now=0)
    engine.apply(Prepared(uid="vol", host="n1", at=1))
    engine.apply(GuestArrived(guest=guest("boom", cpu=2000), at=1))
    assert [type(action) for action in engine.step(1)] == [Bind]
    with pytest.raises(PluginError):
        engine.step(2)


def test_a_journal_in_which_a_plugin_failed_is_replayed():
    lines: list[bytes] = []
    recorder = Recorder(with_a_bad_plugin(), lines.append)
    recorder.apply(HostJoined(host=host("n1", cpu=8000)))
    recorder.apply(GuestArrived(guest=guest("boom", cpu=2000)))
    with pytest.raises(PluginError) as failed:
        recorder.step(SECOND)
    recorder.apply(GuestFailed(uid="boom", reason=failed.value.message))
    recorder.apply(GuestArrived(guest=guest("well")))
    assert binds(recorder.step(2 * SECOND)) == {"well": "n1"}
    journal = read_journal(lines)
    assert replay(journal, registry=Registry({"bad": FailsOnTwoCpus})).difference is None
    good = type("Good", (FailsOnTwoCpus,), {"evaluate": lambda self, spec, rows: np.zeros(len(rows), np.int64)})
    found = replay(journal, registry=Registry({"bad": good})).difference
    assert found is not None
    assert found.expected.startswith("error: plugin 'bad' failed")


@pytest.mark.parametrize("error", [ZeroDivisionError, GeneratorExit, SystemExit])
def test_any_error_of_a_plugin_can_be_written_down(error):
    engine = with_a_bad_plugin(type("Worse", (FailsOnTwoCpus,), {"error": error}))
    engine.apply(HostJoined(host=host("n1", cpu=8000)))
    engine.apply(GuestArrived(guest=guest("boom", cpu=2000)))
    with pytest.raises(PluginError, match=r"plugin 'bad' failed: .*x\\udcff"):
        engine.step(0)


def test_a_plugin_that_cannot_be_made_is_named():
    def fail(view, args):
        raise ZeroDivisionError("init")

    with pytest.raises(PluginError, match="plugin 'bad' failed: ZeroDivisionError: init"):
        with_a_bad_plugin(fail)
