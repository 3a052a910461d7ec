"""Journals: what was recorded replays bit for bit, damage is noticed, and names can be taken out."""

from __future__ import annotations

from binascii import crc32

import numpy as np
import pytest

from hostler.engine import Engine, Registry, find_policy
from hostler.engine.journals.journal import Recorder, StepEntry, read_journal, replay, write_journal
from hostler.engine.journals.redaction import redact
from hostler.errors import FactError, JournalError
from hostler.model import (
    Answered,
    AskUse,
    BindFailed,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostLeft,
    Policy,
    PolicyChanged,
    QueueRules,
    ScorerUse,
    Taint,
    Term,
    Toleration,
    labels,
    parse_amounts,
)

SECOND = 1_000_000_000


def host(name: str, **more: object) -> Host:
    size = parse_amounts({"cpu": 8, "memory": "16Gi"})
    return Host(name=name, uid=f"uid-of-{name}", capacity=size, **more)


def guest(name: str, **more: object) -> GuestArrived:
    spec = GuestSpec(requests=parse_amounts({"cpu": 2, "memory": "1Gi"}), **more)
    return GuestArrived(guest=Guest(name=name, uid=f"uid-of-{name}", spec=spec))


def recorded(lines: list[bytes]) -> Recorder:
    """A run with ties, turns, random draws, refusals, failures and departures."""
    policies = [find_policy(name) for name in ("spread", "random", "round_robin")]
    recorder = Recorder(Engine(policies, clock_start=5, seed=11), lines.append)
    for number in range(6):
        marks: dict[str, object] = {"labels": labels({"zone": "ab"[number % 2], "size": str(number)})}
        if number == 5:
            marks["taints"] = (Taint("secret-team", "blue"),)
        recorder.apply(HostJoined(host=host(f"machine-{number}", **marks)))
    for number in range(12):
        recorder.apply(guest(f"job-{number}", policy=("", "random", "round_robin")[number % 3]))
    recorder.apply(guest("picky", host_selector=labels({"zone": "c"})))
    recorder.apply(guest("blue", tolerations=(Toleration("secret-team", "Equal", "blue"),)))
    large = Term((Expression("size", "Gt", ("3",)),), (Expression("metadata.name", "NotIn", ("machine-4",)),))
    recorder.apply(guest("large", host_affinity=(large,), tolerations=(Toleration(operator="Exists"),)))
    actions = recorder.step(6)
    recorder.apply(BindFailed(uid=actions[0].uid, host=actions[0].host, reason="machine-0 said no"))
    recorder.apply(GuestBound(uid=actions[1].uid, host=actions[1].host))
    recorder.apply(GuestLeft(uid="uid-of-job-4"))
    recorder.apply(HostLeft(name="machine-2"))
    columns = GuestsArrived(
        specs=(GuestSpec(requests=parse_amounts({"cpu": 1}), policy="random"),), spec_of=(0, 0), names=("x", "y")
    )
    recorder.apply_many(columns)
    recorder.step(3 * SECOND)
    recorder.step(400 * SECOND)
    return recorder


def test_replay_gives_the_same_actions_and_the_same_state():
    lines: list[bytes] = []
    recorder = recorded(lines)
    result = replay(read_journal(lines))
    assert result.difference is None
    assert result.steps == 3
    assert result.engine.checkpoint() == recorder.engine.checkpoint()


def test_replay_names_the_entry_at_which_it_differs():
    lines: list[bytes] = []
    recorded(lines)
    journal = read_journal(lines)
    at = next(n for n, entry in enumerate(journal.entries) if isinstance(entry, StepEntry))
    first = journal.entries[at]
    wrong = StepEntry(first.now, first.limit, tuple(reversed(first.actions)))
    changed = type(journal)(journal.header, (*journal.entries[:at], wrong, *journal.entries[at + 1 :]))
    difference = replay(changed).difference
    assert difference is not None
    assert difference.entry == at + 1
    assert '"guest":"' in difference.expected


def test_replay_under_another_seed_differs_and_says_where():
    lines: list[bytes] = []
    recorded(lines)
    journal = read_journal(lines)
    header = type(journal.header)(
        **{**{name: getattr(journal.header, name) for name in journal.header.__struct_fields__}, "seed": 12}
    )
    assert replay(type(journal)(header, journal.entries)).difference is not None


def test_a_torn_last_line_is_left_out_and_named():
    lines: list[bytes] = []
    recorded(lines)
    whole = read_journal(lines)
    for cut in (1, 7, len(lines[-1]) - 1):
        torn = read_journal([*lines[:-1], lines[-1][:-cut]])
        assert torn.entries == whole.entries[:-1]
        assert torn.torn.startswith(f"entry {len(lines) - 1} was lost")


def test_damage_in_the_middle_is_an_error():
    lines: list[bytes] = []
    recorded(lines)
    lines[4] = lines[4].replace(b"machine", b"Machine")
    with pytest.raises(JournalError, match="entry 4 is damaged"):
        read_journal(lines)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="empty"),
        pytest.param([b"hello\n"], id="no-journal"),
        pytest.param([b'00000000 {"entry":"opened"}\n'], id="bad-checksum"),
    ],
)
def test_what_is_no_journal_is_refused(lines):
    with pytest.raises(JournalError):
        read_journal(lines)


def test_a_refused_fact_is_not_recorded():
    lines: list[bytes] = []
    recorder = Recorder(Engine([find_policy("spread")]), lines.append)
    before = len(lines)
    with pytest.raises(FactError):
        recorder.apply(HostJoined(host=Host(name="")))
    assert len(lines) == before


def test_written_and_read_again_a_journal_is_the_same():
    lines: list[bytes] = []
    recorded(lines)
    journal = read_journal(lines)
    again: list[bytes] = []
    write_journal(journal, again.append)
    assert again == lines


def test_a_rotated_file_replays_on_its_own():
    first: list[bytes] = []
    recorder = recorded(first)
    second: list[bytes] = []
    recorder.rotate(second.append)
    recorder.apply(guest("later", policy="random"))
    recorder.step(500 * SECOND)
    result = replay(read_journal(second))
    assert result.difference is None
    assert result.engine.checkpoint() == recorder.engine.checkpoint()


def test_replay_until_a_decision_stops_just_before_it():
    lines: list[bytes] = []
    recorder = recorded(lines)
    decision = recorder.engine.decision("uid-of-picky")
    first_refusal = next(
        action.seq
        for entry in read_journal(lines).entries
        if isinstance(entry, StepEntry)
        for action in entry.actions
        if action.uid == "uid-of-picky"
    )
    assert decision.seq >= first_refusal
    engine = replay(read_journal(lines), until=first_refusal).engine
    assert engine.state.decisions == first_refusal - 1
    assert engine.decision("uid-of-picky").attempt == 0


def test_redacted_journal_has_no_names_and_replays_alike():
    lines: list[bytes] = []
    recorded(lines)
    journal = read_journal(lines)
    redacted = redact(journal)
    text: list[bytes] = []
    write_journal(redacted, text.append)
    for secret in (b"machine", b"job", b"secret", b"blue", b"picky", b"zone", b"said no"):
        assert not any(secret in line for line in text), secret
    assert replay(redacted).difference is None
    for before, after in zip(journal.entries, redacted.entries, strict=True):
        if isinstance(before, StepEntry) and isinstance(after, StepEntry):
            assert [(a.seq, type(a)) for a in before.actions] == [(a.seq, type(a)) for a in after.actions]
    renamed: dict[str, str] = {}
    for before, after in zip(journal.entries, redacted.entries, strict=True):
        if isinstance(before, StepEntry) and isinstance(after, StepEntry):
            for one, other in zip(before.actions, after.actions, strict=True):
                assert renamed.setdefault(one.guest, other.guest) == other.guest
                if hasattr(one, "host"):
                    assert renamed.setdefault(one.host, other.host) == other.host


def test_a_rotated_journal_can_be_redacted_too():
    recorder = recorded([])
    lines: list[bytes] = []
    recorder.rotate(lines.append)
    recorder.apply(GuestLeft(uid="uid-of-job-7"))
    recorder.step(900 * SECOND)
    redacted = redact(read_journal(lines))
    assert replay(redacted).difference is None
    text: list[bytes] = []
    write_journal(redacted, text.append)
    assert not any(b"machine" in line for line in text)


def test_an_entry_that_no_engine_takes_is_a_difference_not_a_crash():
    lines: list[bytes] = []
    recorder = Recorder(Engine([find_policy("spread")]), lines.append)
    recorder.apply(Answered(uid="nobody", ask=1))
    journal = read_journal(lines)
    bad = type(journal.entries[0])(HostJoined(host=Host(name="")))
    difference = replay(type(journal)(journal.header, (*journal.entries, bad))).difference
    assert difference is not None
    assert "no name" in difference.actual


class ReadsNames:
    """A scorer that redaction cannot keep: it scores by a label's text."""

    name = "reads_names"
    normalizer = "none"

    def __init__(self, view, args):
        self.view = view

    def evaluate(self, spec, rows):
        return np.array([len(value or "") for value in self.view.labels("price", rows)], dtype=np.int64)


def test_a_run_that_depends_on_names_cannot_be_redacted():
    policy = Policy(name="named", scorers=(ScorerUse("reads_names"),))
    registry = Registry(extra={"reads_names": ReadsNames})
    lines: list[bytes] = []
    recorder = Recorder(Engine([policy], registry=registry), lines.append)
    for name, price in (("a", "cheap"), ("b", "very dear")):
        recorder.apply(HostJoined(host=host(name, labels=labels({"price": price}))))
    recorder.apply(guest("g"))
    assert recorder.step(1)[0].host == "b"
    with pytest.raises(JournalError, match="decides otherwise"):
        redact(read_journal(lines), registry)


def test_a_redacted_journal_keeps_no_free_text_of_policies():
    policy = Policy(name="mine", summary="of our secret team")
    lines: list[bytes] = []
    recorder = Recorder(Engine([policy]), lines.append)
    recorder.apply(PolicyChanged(policies=(policy,)))
    text: list[bytes] = []
    write_journal(redact(read_journal(lines)), text.append)
    assert not any(b"secret" in line for line in text)


def test_replay_until_a_decision_counts_guests_that_were_only_asked_about():
    ask = Policy(name="ask", ask=AskUse("oracle", ignorable=True))
    lines: list[bytes] = []
    recorder = Recorder(Engine([find_policy("first_fit"), ask]), lines.append)
    for name in "ab":
        recorder.apply(HostJoined(host=Host(name=name, capacity=(("guests", 1),))))
    for name, policy in (("x", "ask"), ("y", ""), ("z", "")):
        recorder.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=GuestSpec(policy=policy))))
    actions = recorder.step(1)
    assert [a.guest for a in actions] == ["x", "y", "z"]
    engine = replay(read_journal(lines), until=actions[2].seq).engine
    assert engine.explain("z").feasible == ("b",)


def test_replay_until_a_decision_lets_deadlines_of_that_step_pass_first():
    lines: list[bytes] = []
    engine = Engine([find_policy("first_fit")], rules=QueueRules(prepare_timeout_ns=10))
    recorder = Recorder(engine, lines.append)
    recorder.apply(HostJoined(host=Host(name="a", capacity=(("guests", 1),))))
    recorder.apply(GuestArrived(guest=Guest(name="p", uid="p", spec=GuestSpec(prepare=("disk",)))))
    recorder.step(1)
    recorder.apply(GuestArrived(guest=Guest(name="q", uid="q")))
    bind = next(a for a in recorder.step(100) if a.guest == "q")
    assert replay(read_journal(lines), until=bind.seq).engine.explain("q").feasible == ("a",)


def test_line_of_bytes_that_are_no_text_is_damage():
    lines: list[bytes] = []
    Recorder(Engine([find_policy("spread")]), lines.append)
    text = b'{"entry":"applied","event":{"event":"guest_left","uid":"\xff"}}'
    journal = read_journal([*lines, b"%08x %b\n" % (crc32(text), text)])
    assert journal.torn
