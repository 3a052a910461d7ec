"""The journal of a run: facts and decisions as lines that survive a torn last line.

A line is a checksum and a JSON entry. A journal starts with its format, code version, policies, seed and rules. Then
follow facts, and steps with their actions. Checkpoints may come in between, and a rotated file starts with one. The
codec is here; fronts open the files and pass a ``write`` function or lines.

Invariant: the tags and fields of entries are a file format. They do not change when classes are renamed.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from hostler._version import __version__
from hostler.engine.engine import Engine
from hostler.engine.policy.registry import Registry
from hostler.engine.state.gang_book import GANG
from hostler.errors import HostlerError, JournalError
from hostler.model import (
    Abandon,
    Action,
    Ask,
    Event,
    Evict,
    GuestsArrived,
    HostsJoined,
    Move,
    Nominate,
    Policy,
    QueueRules,
)

__all__ = [
    "CheckpointEntry",
    "FactEntry",
    "HeaderEntry",
    "Journal",
    "JournalEntry",
    "Recorder",
    "Replay",
    "ReplayDifference",
    "StepEntry",
    "read_journal",
    "replay",
    "write_journal",
]  # fmt: skip

FORMAT = 1
Write: TypeAlias = Callable[[bytes], object]


class HeaderEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="opened"):
    """The first entry: everything that an engine is created from."""

    format: int
    version: str
    policies: tuple[Policy, ...]
    clock_start: int
    seed: int
    rules: QueueRules
    redacted: bool = False


class FactEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="applied"):
    """A fact that the engine accepted."""

    event: Event


class StepEntry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="stepped"):
    """A step and its actions, or its error: time passes in either case."""

    now: int
    limit: int | None = None
    actions: tuple[Action, ...] = ()
    error: str = ""


class CheckpointEntry(msgspec.Struct, frozen=True, tag_field="entry", tag="saved"):
    """A checkpoint; a replay can start from here."""

    checkpoint: bytes


JournalEntry: TypeAlias = HeaderEntry | FactEntry | StepEntry | CheckpointEntry


class Journal(msgspec.Struct, frozen=True):
    """A journal in memory; ``torn`` says what was lost at its end, if anything."""

    header: HeaderEntry
    entries: tuple[FactEntry | StepEntry | CheckpointEntry, ...]
    torn: str = ""


class ReplayDifference(msgspec.Struct, frozen=True):
    """The first entry where a replay differs from the journal (the header is entry 0)."""

    entry: int
    expected: str
    actual: str


class Replay(msgspec.Struct, frozen=True):
    """The result of a replay."""

    engine: Engine
    entries: int
    steps: int
    decisions: int
    difference: ReplayDifference | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[JournalEntry] = msgspec.json.Decoder(JournalEntry)


def encode_entry(entry: JournalEntry) -> bytes:
    """Encode an entry as one line."""
    text = _ENCODER.encode(entry)
    return b"%08x %b\n" % (crc32(text), text)


def decode_line(line: bytes) -> JournalEntry:
    """Decode one line."""
    if len(line) < 10 or line[8:9] != b" " or not line.endswith(b"\n"):
        raise JournalError("the line is cut short or no journal line")
    text = line[9:-1]
    if line[:8] != b"%08x" % crc32(text):
        raise JournalError("the checksum does not match")
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, HostlerError, RecursionError, UnicodeDecodeError) as error:
        raise JournalError(f"the entry cannot be read: {error}") from error


class Recorder:
    """An engine with a journal: it has the same calls, and writes each one after it succeeded."""

    def __init__(self, engine: Engine, write: Write) -> None:
        self.engine = engine
        self._write = write
        self._open()

    def _open(self) -> None:
        """Write the header, and a checkpoint if the engine already has state."""
        state = self.engine.state
        self._write(
            encode_entry(
                HeaderEntry(
                    format=FORMAT,
                    version=__version__,
                    policies=state.profiles.policies,
                    clock_start=state.now,
                    seed=state.seed,
                    rules=state.rules,
                )
            )
        )
        if state.arrivals or state.decisions or state.cluster.row_of or state.left_guests or state.left_hosts:
            self.checkpoint()

    def apply(self, event: Event) -> None:
        """Take a fact and write it."""
        self.engine.apply(event)
        self._write(encode_entry(FactEntry(event)))

    def apply_many(self, batch: GuestsArrived | HostsJoined) -> None:
        """Take many facts and write them."""
        self.apply(batch)

    def step(self, now: int, limit: int | None = None) -> list[Action]:
        """Step and write what was decided."""
        try:
            actions = self.engine.step(now, limit)
        except HostlerError as error:
            self._write(encode_entry(StepEntry(now, limit, error=str(error))))
            raise
        self._write(encode_entry(StepEntry(now, limit, tuple(actions))))
        return actions

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        self._write(encode_entry(CheckpointEntry(self.engine.checkpoint())))

    def rotate(self, write: Write) -> None:
        """Continue in another file, which can be replayed on its own."""
        self._write = write
        self._open()


def read_journal(lines: Iterable[bytes]) -> Journal:
    """Read a journal; a torn last line is dropped and reported, damage elsewhere is an error."""
    header: HeaderEntry | None = None
    entries: list[FactEntry | StepEntry | CheckpointEntry] = []
    failed: tuple[int, JournalError] | None = None
    for number, line in enumerate(lines):
        if failed is not None:
            raise JournalError(
                f"journal entry {failed[0]} is damaged: {failed[1]}", hint="only the last line may be cut short"
            )
        try:
            entry = decode_line(line)
        except JournalError as error:
            failed = (number, error)
            continue
        if isinstance(entry, HeaderEntry):
            if number:
                raise JournalError(f"journal entry {number} opens a journal inside another one")
            if entry.format != FORMAT:
                raise JournalError(f"the journal has format {entry.format}, this version reads {FORMAT}")
            header = entry
        elif header is None:
            raise JournalError("the journal does not begin with its header")
        else:
            entries.append(entry)
    if header is None:
        raise JournalError("this is not a journal", hint="hostler place --journal FILE writes one")
    torn = f"entry {failed[0]} was lost: {failed[1]}" if failed is not None else ""
    return Journal(header, tuple(entries), torn)


def write_journal(journal: Journal, write: Write) -> None:
    """Write a whole journal."""
    for entry in (journal.header, *journal.entries):
        write(encode_entry(entry))


def new_engine(header: HeaderEntry, registry: Registry | None = None) -> Engine:
    """Return the engine that a journal begins with."""
    return Engine(header.policies, header.clock_start, header.seed, rules=header.rules, registry=registry)


def replay(journal: Journal, *, registry: Registry | None = None, until: int | None = None) -> Replay:
    """Repeat the whole run and compare. ``until`` stops just before that decision, if need be inside a step."""
    engine = new_engine(journal.header, registry)
    steps = 0
    for number, entry in enumerate(journal.entries, 1):
        if isinstance(entry, CheckpointEntry):
            if number == 1:
                engine = Engine.restore(entry.checkpoint, registry)
            continue
        try:
            if isinstance(entry, FactEntry):
                engine.apply(entry.event)
                continue
            if until is not None and any(action.seq == until for action in entry.actions):
                engine.step(entry.now, _count_taken_before(entry.actions, until, engine))
                return Replay(engine, number, steps, engine.state.decisions)
            actual = tuple(engine.step(entry.now, entry.limit))
        except HostlerError as error:
            if isinstance(entry, StepEntry) and entry.error:
                steps += 1
                continue
            difference = ReplayDifference(number, _text(entry), f"error: {error}")
            return Replay(engine, number, steps, engine.state.decisions, difference)
        steps += 1
        if entry.error:
            difference = ReplayDifference(number, f"error: {entry.error}", f"{len(actual)} actions")
            return Replay(engine, number, steps, engine.state.decisions, difference)
        if actual != entry.actions:
            return Replay(
                engine, number, steps, engine.state.decisions, _first_difference(number, entry.actions, actual)
            )
    return Replay(engine, len(journal.entries), steps, engine.state.decisions)


def _count_taken_before(actions: Sequence[Action], until: int, engine: Engine) -> int:
    """Return how many queue entries a step popped before it made decision ``until``.

    Every popped guest makes one answer, a gang makes one for each member. Actions that follow from an answer
    (evictions), binds of prepared guests and abandoned preparations do not count.
    """
    guests, decided = engine.state.guests, engine.state.decisions
    taken: dict[str, None] = {}
    for action in actions:
        if isinstance(action, Abandon | Evict | Move | Nominate) or (
            action.seq <= decided and not isinstance(action, Ask)
        ):
            continue
        record = guests.get(action.uid)
        name = GANG + record.guest.gang if record is not None and record.guest.gang else action.uid
        if action.seq == until and not isinstance(action, Ask):
            return list(taken).index(name) if name in taken else len(taken)
        taken[name] = None
    return len(taken)


def _first_difference(number: int, expected: Sequence[Action], actual: Sequence[Action]) -> ReplayDifference:
    """Return the first action that differs."""
    for one, other in zip(expected, actual, strict=False):
        if one != other:
            return ReplayDifference(number, _text(one), _text(other))
    return ReplayDifference(number, f"{len(expected)} actions", f"{len(actual)} actions")


def _text(value: JournalEntry | Action) -> str:
    return _ENCODER.encode(value).decode()[:400]
