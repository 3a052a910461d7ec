"""Redaction: not one name is left, wherever it stood, and the run still decides the same."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.journals.journal import (
    CheckpointEntry,
    FactEntry,
    Journal,
    Recorder,
    StepEntry,
    read_journal,
    replay,
    write_journal,
)
from hostler.engine.journals.redaction import redact
from hostler.errors import JournalError
from hostler.model import (
    Answered,
    Ask,
    AskUse,
    Bind,
    BindFailed,
    Defer,
    Device,
    DeviceRequest,
    Event,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Prepare,
    Prepared,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
    amounts,
    labels,
)
from tests.engine.fleet import QUICK, SECOND, policy

POLICIES = (
    policy("spread"),
    policy("round_robin"),
    policy("random"),
    policy("spread", name="asking", summary="for the secret team", ask=AskUse("oracle")),
)
ZONES = ["secret-east", "secret-west"]
HOSTS = [f"secret-host-{n}" for n in (3, 1, 2)]


def raw_text(journal: Journal) -> bytes:
    """Return everything that a reader of the journal sees, checkpoints unpacked."""
    lines: list[bytes] = []
    write_journal(journal, lines.append)
    lines += [entry.checkpoint for entry in journal.entries if isinstance(entry, CheckpointEntry)]
    return b"\n".join(lines)


# -- a run whose every name is a secret -------------------------------------------------------------------------------


def machine(rng: Random, name: str) -> Host:
    return Host(
        name=name,
        uid=f"secret-uid-{name}",
        capacity=amounts({"cpu": rng.randrange(2, 9), "guests": 4}),
        devices=(Device("gpu", "A"),) * rng.randrange(2),
        labels=labels({"secret-zone": rng.choice(ZONES), "secret-size": str(rng.randrange(9))}),
        taints=(Taint("secret-taint", "secret-value"),) if rng.random() < 0.3 else (),
        cordoned=rng.random() < 0.2,
        rank=rng.randrange(2),
    )


def wishes(rng: Random) -> GuestSpec:
    zone = Expression("secret-zone", "In", (rng.choice(ZONES),))
    size = Expression("secret-size", rng.choice(["Gt", "Lt"]), ("4",))
    own_name = Expression("metadata.name", "NotIn", (rng.choice(HOSTS),))
    tolerations = (
        Toleration("secret-taint", "Equal", "secret-value"),
        Toleration("node.kubernetes.io/unschedulable", "Exists"),
    )
    return GuestSpec(
        requests=amounts({"cpu": rng.randrange(4)}),
        devices=(DeviceRequest("gpu", 1, 500, ("A",)),) if rng.random() < 0.2 else (),
        policy=rng.choice(["", *(p.name for p in POLICIES)]),
        host_name=rng.choice(["", "", "", *HOSTS]),
        host_selector=labels({"secret-zone": rng.choice(ZONES)}) if rng.random() < 0.2 else (),
        host_affinity=rng.choice([(), (), (Term((zone,), (own_name,)), Term((size,)))]),
        preferred_hosts=rng.choice([(), (WeightedTerm(5, Term((zone,))),)]),
        tolerations=tolerations[: rng.randrange(3)],
        namespace=rng.choice(["default", "secret-space"]),
        labels=labels({"secret-app": "secret-shop"}),
        prepare=("secret-disk",) if rng.random() < 0.2 else (),
    )


def event_of(rng: Random, number: int, engine: Engine) -> Event:
    """Return some event that may happen now."""
    names, uids = HOSTS, list(engine.guests()) or ["secret-nobody"]
    uid, name = rng.choice(uids), rng.choice(names)
    where = engine.decision(uid).host if uid in engine.state.guests else name
    own, host = f"secret-guest-{number}", rng.choice(["", "", name])
    match rng.randrange(11):
        case 0:
            return HostJoined(host=machine(rng, name))
        case 1:
            return HostChanged(host=machine(rng, name))
        case 2:
            return HostLeft(name=name, uid=rng.choice(["", f"secret-uid-{name}"]))
        case 3:
            fresh = (own, f"{own}-b")
            return GuestsArrived(specs=(wishes(rng),), spec_of=(0, 0), names=fresh, hosts=rng.choice([(), (host, "")]))
        case 4:
            return GuestLeft(uid=uid)
        case 5:
            return GuestBound(uid=uid, host=where or name)
        case 6:
            return BindFailed(uid=uid, host=where, reason="secret-host-1 said no")
        case 7:
            return Prepared(uid=uid, host=where, error=rng.choice(["", "no secret-disk"]))
        case 8:
            return PolicyChanged(policies=POLICIES)
        case _:
            return GuestArrived(guest=Guest(name=own, uid=f"secret-uid-{number}", spec=wishes(rng), host=host))


def run(rng: Random, recorder: Recorder, first: int, count: int) -> None:
    for number in range(first, first + count):
        recorder.apply(event_of(rng, number, recorder.engine))
        if rng.random() < 0.5:
            for action in recorder.step(recorder.engine.now + rng.randrange(3) * SECOND):
                if isinstance(action, Ask):
                    scores = tuple((name, rng.randrange(9)) for name in action.hosts)
                    refused = (("secret-host-1", "secret reasons"),)
                    recorder.apply(Answered(uid=action.uid, ask=action.ask, scores=scores, refused=refused))


def recorded(rng: Random) -> Journal:
    lines: list[bytes] = []
    recorder = Recorder(Engine(POLICIES, seed=rng.randrange(99)), lines.append)
    recorder.apply(HostsJoined(hosts=tuple(machine(rng, name) for name in HOSTS)))
    run(rng, recorder, 0, 20)
    if rng.random() < 0.5:
        lines.clear()
        recorder.rotate(lines.append)
        run(rng, recorder, 100, 10)
    recorder.step(recorder.engine.now + 1000 * SECOND)
    return read_journal(lines)


@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_a_redacted_run_holds_no_name_and_decides_the_same(rng):
    journal = recorded(rng)
    assert b"secret" in raw_text(journal)
    redacted = redact(journal)
    assert b"secret" not in raw_text(redacted)
    assert replay(redacted).difference is None
    # Actions correspond one to one, and one old name is always the same new one.
    new_name: dict[str, str] = {}
    for one, other in zip(journal.entries, redacted.entries, strict=True):
        if not isinstance(one, StepEntry) or not isinstance(other, StepEntry):
            assert type(one) is type(other)
            continue
        assert (one.now, one.limit, len(one.actions)) == (other.now, other.limit, len(other.actions))
        for mine, its in zip(one.actions, other.actions, strict=True):
            assert (type(mine), mine.seq) == (type(its), its.seq)
            for field in ("uid", "guest", "host"):
                old = getattr(mine, field, "")
                assert new_name.setdefault(old, getattr(its, field, "")) == getattr(its, field, "")
            if isinstance(mine, Bind | Prepare) and isinstance(its, Bind | Prepare):
                assert mine.devices == its.devices
            if isinstance(mine, Defer) and isinstance(its, Defer):
                assert sorted(c.hosts for c in mine.reasons) == sorted(c.hosts for c in its.reasons)
    assert len(set(new_name.values())) == len(new_name)
    assert [new_name[old] for old in sorted(new_name)] == sorted(new_name.values())


@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_a_journal_that_was_redacted_can_be_redacted_again(rng):
    once = redact(recorded(rng))
    twice = redact(once)
    assert replay(twice).difference is None
    assert twice.header.redacted


# -- what stays and what goes -----------------------------------------------------------------------------------------


def journal_of(*events: Event, policies: Any = POLICIES) -> Journal:
    lines: list[bytes] = []
    recorder = Recorder(Engine(policies), lines.append)
    for event in events:
        recorder.apply(event)
    recorder.step(SECOND)
    return read_journal(lines)


def redacted_event(event: Event) -> Any:
    entry = redact(journal_of(event)).entries[0]
    assert isinstance(entry, FactEntry)
    return entry.event


def test_amounts_devices_kinds_models_and_policies_stay():
    host = Host(
        name="secret", capacity=amounts({"cpu": 5, "example.com/fpga": 1}), devices=(Device("gpu", "A100", 700),)
    )
    found = redacted_event(HostJoined(host=host, at=17)).host
    assert (found.capacity, found.devices) == (host.capacity, host.devices)
    wanted = GuestSpec(requests=amounts({"cpu": 5}), devices=(DeviceRequest("gpu", 1, 5, ("A100",)),), policy="random")
    spec = redacted_event(GuestArrived(guest=Guest(name="s", uid="s", spec=wanted))).guest.spec
    assert (spec.requests, spec.devices, spec.policy) == (wanted.requests, wanted.devices, "random")


def test_whole_numbers_in_labels_stay_because_they_are_compared():
    marks = labels({"a": "17", "b": "-3", "c": "+5", "d": "5.5", "e": "x17"})
    found = [value for _, value in redacted_event(HostJoined(host=Host(name="h", labels=marks))).host.labels]
    assert found[:3] == ["17", "-3", "+5"]
    assert not {"5.5", "x17"} & set(found)


def test_a_guest_that_tolerates_a_cordon_still_does():
    daemon = GuestSpec(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),))
    journal = journal_of(
        HostJoined(host=Host(name="only", cordoned=True)),
        GuestArrived(guest=Guest(name="daemon", uid="d", spec=daemon)),
        GuestArrived(guest=Guest(name="plain", uid="p")),
    )
    last = redact(journal).entries[-1]
    assert isinstance(last, StepEntry)
    assert [type(action) for action in last.actions] == [Bind, Defer]


def test_free_text_is_replaced_whatever_it_says():
    for event, field in (
        (BindFailed(uid="x", host="y", reason="the boss's pc"), "reason"),
        (Prepared(uid="x", host="y", error="the boss's pc"), "error"),
        (Answered(uid="x", ask=1, error="the boss's pc"), "error"),
    ):
        assert getattr(redacted_event(event), field) == "redacted"
    assert redacted_event(BindFailed(uid="x", host="y")).reason == ""


def test_two_guests_whose_uids_are_names_of_hosts_are_not_confused():
    journal = journal_of(
        HostsJoined(hosts=(Host(name="one"), Host(name="two"))),
        GuestArrived(guest=Guest(name="two", uid="one", spec=GuestSpec(host_name="two"))),
    )
    last = redact(journal).entries[-1]
    assert isinstance(last, StepEntry)
    (bind,) = last.actions
    assert isinstance(bind, Bind)
    assert bind.guest == bind.host != bind.uid


def test_a_run_that_does_not_replay_as_recorded_is_not_redacted():
    journal = journal_of(HostJoined(host=Host(name="a")), GuestArrived(guest=Guest(name="g", uid="g")))
    last = journal.entries[-1]
    assert isinstance(last, StepEntry)
    forged = msgspec.structs.replace(last, actions=(msgspec.structs.replace(last.actions[0], host="elsewhere"),))
    with pytest.raises(JournalError, match="does not replay"):
        redact(Journal(journal.header, (*journal.entries[:-1], forged)))


# -- what was forgotten once ------------------------------------------------------------------------------------------


def test_a_spec_that_was_decided_before_the_guest_changed_is_redacted_too():
    engine = Engine(POLICIES)
    engine.apply(HostJoined(host=Host(name="a")))
    picky = GuestSpec(host_selector=labels({"secret-key": "secret-value"}), namespace="secret-space")
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", version=1, spec=picky)))
    engine.step(1)
    engine.apply(GuestChanged(guest=Guest(name="g", uid="g", version=2)))
    lines: list[bytes] = []
    Recorder(engine, lines.append)
    assert b"secret" not in raw_text(redact(read_journal(lines)))


def test_a_host_may_be_called_default():
    journal = journal_of(
        HostsJoined(hosts=(Host(name="apple"), Host(name="default"))),
        GuestArrived(guest=Guest(name="g", uid="g")),
        policies=(policy("first_fit"),),
    )
    assert replay(redact(journal)).difference is None
