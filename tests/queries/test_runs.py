"""One loop drives an engine until nothing is due; carriers say what becomes of its actions."""

import pytest

from hostler.engine import Engine, find_policy
from hostler.engine.journals.journal import Recorder, read_journal, replay
from hostler.model import (
    Action,
    AskUse,
    Bind,
    Defer,
    Evict,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    Policy,
    PreemptionRules,
    amounts,
)
from hostler.queries import Carrier, UnattendedCarrier, decide_all, decide_once, run_until_idle
from hostler.queries.runs import NO_ANSWER

SPREAD = find_policy("spread")
EVICTING = Policy(name="evicting", ties=("name",), preemption=PreemptionRules())
ASKING = Policy(name="asking", ties=("name",), ask=AskUse(name="scorer"))


def _engine(policy: Policy, hosts: int = 1, cpu: int = 4000) -> Engine:
    engine = Engine([policy])
    for number in range(hosts):
        engine.apply(HostJoined(host=Host(name=f"h{number}", uid=f"h{number}", capacity=amounts({"cpu": cpu}))))
    return engine


def _arrive(driver: Engine | Recorder, name: str, cpu: int = 3000, priority: int = 0) -> None:
    spec = GuestSpec(requests=amounts({"cpu": cpu}), priority=priority)
    driver.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=spec)))


class _Collecting(Carrier):
    def __init__(self, stops: bool = False) -> None:
        self.actions: list[Action] = []
        self.moments: list[int] = []
        self._stops = stops

    def carry_out(self, actions: list[Action], now: int) -> bool:
        self.actions += actions
        self.moments.append(now)
        return self._stops


def test_run_ends_when_nothing_is_due_at_that_moment():
    engine = _engine(SPREAD)
    _arrive(engine, "one")
    _arrive(engine, "two")
    carrier = _Collecting()
    assert run_until_idle(engine, 5, carrier) is None
    assert [type(action) for action in carrier.actions] == [Bind, Defer]
    assert set(carrier.moments) == {5}


def test_run_stops_early_and_returns_the_time_of_the_next_step():
    engine = _engine(SPREAD, hosts=3)
    for name in ("one", "two", "three"):
        _arrive(engine, name)
    carrier = _Collecting(stops=True)
    carrier.limit = 1
    assert run_until_idle(engine, 5, carrier) == 5
    assert len(carrier.actions) == 1
    assert run_until_idle(engine, 5, _Collecting(), most_steps=1) is None


def test_most_steps_ends_a_run_that_never_rests():
    engine = _engine(SPREAD, hosts=3)
    for name in ("one", "two", "three"):
        _arrive(engine, name)
    carrier = _Collecting()
    carrier.limit = 1
    assert run_until_idle(engine, 5, carrier, most_steps=2) == 5
    assert len(carrier.actions) == 2


def test_unattended_victims_leave_at_once_and_are_seen_before():
    engine = _engine(EVICTING)
    _arrive(engine, "low")
    decide_all(engine)
    _arrive(engine, "high", priority=10)
    seen: list[tuple[str, bool]] = []

    def observe(actions: object) -> None:
        assert isinstance(actions, list)
        seen.extend((action.uid, action.uid in engine.view.records) for action in actions if isinstance(action, Evict))

    run_until_idle(engine, engine.now, UnattendedCarrier(engine, observe=observe))
    assert seen == [("low", True)]
    assert "low" not in engine.view.records
    assert engine.decision("high").host == "h0"


def test_decide_all_answers_questions_with_an_error():
    engine = _engine(ASKING)
    _arrive(engine, "one")
    actions = decide_all(engine)
    assert not any(isinstance(action, Bind) for action in actions)
    assert NO_ANSWER in engine.decision("one").note


def test_decide_once_tries_nobody_twice():
    engine = _engine(SPREAD)
    for name in ("one", "two", "three"):
        _arrive(engine, name)
    actions = decide_once(engine, 1, 3)
    assert [(type(action), action.uid) for action in actions] == [(Bind, "one"), (Defer, "two"), (Defer, "three")]


@pytest.mark.parametrize("is_observed", [False, True])
def test_decide_all_leaves_one_journal_whether_observed_or_not(is_observed):
    """A recorder may drive the run too, and the journal replays."""
    lines: list[bytes] = []
    recorder = Recorder(Engine([EVICTING]), lines.append)
    recorder.apply(HostJoined(host=Host(name="h0", uid="h0", capacity=amounts({"cpu": 4000}))))
    _arrive(recorder, "low")
    decide_all(recorder)
    _arrive(recorder, "high", priority=10)
    decide_all(recorder, observe=(lambda actions: None) if is_observed else None)
    replayed = replay(read_journal(lines))
    assert replayed.difference is None
    assert replayed.engine.decision("high").host == "h0"
