"""Redaction of runs with gangs, reservations and failed steps: what was decided by a name is decided without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
import pytest

from hostler.engine import Engine
from hostler.engine.journals.journal import Journal, Recorder, StepEntry, read_journal, replay, write_journal
from hostler.engine.journals.redaction import redact
from hostler.errors import HostlerError, PluginError
from hostler.model import (
    Bind,
    BindFailed,
    Event,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestSpec,
    HostJoined,
    QueueRules,
    Reservation,
    ReservationChanged,
    amounts,
)
from tests.engine.fleet import SECOND, host, policy
from tests.engine.random_runs import RandomRun, RunStep

SEEDS = range(12)
STEPS = 24
TENANTS = 7  # more than have a share of the search in one step


def record(engine: Engine, turns: Iterable[RunStep], rotated_after: int) -> Journal:
    """Play turns, and return what was recorded since the journal was rotated."""
    lines: list[bytes] = []
    recorder = Recorder(engine, lines.append)
    for number, turn in enumerate(turns):
        if number == rotated_after:
            lines = []
            recorder.rotate(lines.append)
        for fact in turn.facts:
            with suppress(HostlerError):
                recorder.apply(fact)
        with suppress(HostlerError):
            recorder.step(turn.now, turn.limit)
    return read_journal(lines)


def check_redacted(journal: Journal) -> Journal:
    """Redact a journal and replay it; redaction itself compares the decisions."""
    lines: list[bytes] = []
    write_journal(redact(journal), lines.append)
    redacted = read_journal(lines)
    assert replay(redacted).difference is None
    return redacted


def turns(*facts: Sequence[Event]) -> list[RunStep]:
    """Return one turn each quarter of a second."""
    return [RunStep(tuple(some), number * SECOND // 4, None) for number, some in enumerate(facts)]


def member(gang: str, number: int, namespace: str, cpu: int) -> GuestArrived:
    name = f"{gang}-{number}"
    spec = GuestSpec(requests=amounts({"cpu": cpu}), namespace=namespace)
    return GuestArrived(guest=Guest(name=name, uid=f"{namespace}-{name}", gang=f"{namespace}/{gang}", spec=spec))


def test_reservation_of_a_checkpoint_ends_without_its_name():
    night = Reservation(name="night", amounts=amounts({"cpu": 4000}), tenant="them", until=2 * SECOND)
    guest = Guest(name="g", uid="g", spec=GuestSpec(requests=amounts({"cpu": 4000})))
    first = [HostJoined(host=host("a")), ReservationChanged(reservation=night), GuestArrived(guest=guest)]
    journal = record(Engine((policy("spread"),)), turns(first, *[()] * 20), rotated_after=2)
    assert [entry for entry in journal.entries if isinstance(entry, StepEntry) and entry.actions]
    check_redacted(journal)


def test_gang_pauses_equally_long_without_its_name():
    gangs = [f"team-{number}" for number in range(6)]
    first: list[Event] = [HostJoined(host=host(f"h{number}", cpu=4000)) for number in range(12)]
    first += [GangChanged(gang=Gang(name=name, min_count=2)) for name in gangs]
    first += [member(name, number, "default", 4000) for name in gangs for number in range(2)]
    engine = Engine((policy("spread"),), rules=QueueRules(jitter_percent=100))
    learning = engine.fork()
    for fact in first:
        learning.apply(fact)
    failed = [BindFailed(uid=bind.uid, host=bind.host) for bind in learning.step(0) if isinstance(bind, Bind)]
    check_redacted(record(engine, turns(first, failed, *[()] * 12), rotated_after=99))


@pytest.mark.parametrize("rotated_after", [99, 2])
def test_gangs_of_many_namespaces_take_turns_without_their_names(rotated_after: int):
    """Namespaces get other names than tenants, and sort otherwise: "a-b" before "a", and "default" between."""
    spaces = [("default" if n == 3 else f"{'z' if n % 2 else 'a'}{'-b' * n}") for n in range(TENANTS)]
    first: list[Event] = [HostJoined(host=host(f"h{number}", cpu=3000)) for number in range(4)]
    for space in spaces:
        first.append(GangChanged(gang=Gang(name="team", namespace=space, min_count=6)))
        first += [member("team", number, space, 1500 + 100 * (number % 3)) for number in range(6)]
    tenant = GuestSpec(requests=amounts({"cpu": 1700}), tenant="m")
    first.append(GangChanged(gang=Gang(name="theirs", min_count=8)))
    first += [
        GuestArrived(guest=Guest(name=f"t{n}", uid=f"t{n}", gang="default/theirs", spec=tenant)) for n in range(8)
    ]
    engine = Engine((policy("first_fit"),), rules=QueueRules(search_units=1))
    check_redacted(record(engine, turns(first, *[()] * 30), rotated_after=rotated_after))


def test_step_that_failed_is_redacted_as_one_that_failed(monkeypatch: pytest.MonkeyPatch):
    journal = record(Engine((policy("spread"),)), turns([HostJoined(host=host("a"))], ()), rotated_after=99)
    failed = StepEntry(journal.entries[-1].now, error="plugin secret failed")
    journal = msgspec.structs.replace(journal, entries=(*journal.entries[:-1], failed))
    step = Engine.step

    def fail(engine: Engine, now: int, limit: int | None = None) -> object:
        if now == failed.now:
            raise PluginError("plugin secret failed")
        return step(engine, now, limit)

    monkeypatch.setattr(Engine, "step", fail)  # stands in for a plugin of a third party
    redacted = check_redacted(journal)
    assert redacted.entries[-1] == StepEntry(failed.now, error="redacted")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_run_decides_the_same_without_names(seed: int):
    run = RandomRun(seed)
    engine = Engine(run.policies, seed=seed, rules=run.rules)
    played: list[RunStep] = []
    live = Engine(run.policies, seed=seed, rules=run.rules)
    for _ in range(STEPS):
        turn = run.turn()
        played.append(turn)
        for fact in turn.facts:
            with suppress(HostlerError):
                live.apply(fact)
        run.notice(live.step(turn.now, turn.limit))
    check_redacted(record(engine, played, rotated_after=STEPS // 2 if seed % 2 else 99))
