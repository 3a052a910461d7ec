"""The engine of one replica, at one position of the log. Every replica with the same log has the same engine.

The log has facts (what happened) and steps (what the leader decided). A step stands behind facts that the leader did
not know yet, because other replicas wrote them while it decided. Its field ``upto`` is the last entry that it knew. So
facts wait here until a step takes them::

    log      f1   f2   f3   step(upto=f2)   f4
    waiting  f1   f2   f3   f3              f3 f4
    engine                  f1 f2, decided

A follower is in one of these states::

    following --step()--> torn --stepped(), read(own step)--> following
        |                   |
        |                   +-- the write failed, or its outcome is unknown: throw the follower away
        +-- read() of an entry that cannot be followed --> failed, for good

- following: the engine has made exactly the steps that were read. A checkpoint or a copy can be taken.
- torn (``is_torn``): the leader's engine is one step ahead of the log. Only the entry of that step may complete it.
- failed: every later ``read`` raises the same LogNotFollowedError. The replica builds a new follower from an older
  checkpoint, or from the beginning of the log.

Invariant: the engine takes facts only in the order of the log, only when a step takes them, and with times that depend
on the log alone. So all replicas have the same engine, bit for bit. Each step has a digest of its decisions. If a
replica decides differently, it notices and raises DivergedError.

A fact has the time of its writer's clock. If that clock is ahead of the step that takes the fact, the fact gets the
time of the step. Otherwise one fast clock would move all engines ahead.

A checkpoint has a digest of its own bytes, because neither database notices a bit that the disk lost. If the digest
does not match, the replica begins with the checkpoint before it. Checkpoints of releases without digests are read
without the check. The module does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from hostler.control.settings import policies_of_empty_log
from hostler.control.store.history.log import StoredCheckpoint, StoredEntry
from hostler.engine import Engine, Registry
from hostler.engine.state.records import PLACED_STATES
from hostler.errors import HostlerError, InternalError, PluginError, UnknownPluginError
from hostler.model import Action, Event, GuestBound, GuestChanged, Policy, PolicyChanged, QueueRules

__all__ = [
    "REBUILT", "RULES", "DivergedError", "Follower", "FollowerBackup", "FollowerState", "LogNotFollowedError",
    "MissingPluginError", "RejectedFact", "Step", "digest_of_actions", "seal_checkpoint",
]  # fmt: skip

_PLAIN = "hostler-engine-1"  # the engine alone, as releases without digests wrote it; still read
BETWEEN = "hostler-engine-between-1"
REBUILT = "engine.rebuilt"  # the subject of a note: from there on an engine counts that was made from rows
_UPGRADE = "run the version of the other replicas here; this one does not lead meanwhile"
_ALONE = "run the version of the other replicas here; if this one is alone, see 'hostler rebuild --help'"
_PLUGINS = "start it with the same policies and plugins as the other replicas: --config and --plugin"
_CONFIRM_NS = 25_000_000
# Every step is a transaction, and a share of a search takes some 50 ms of the interpreter: a project that searches all
# the time has about a sixth of a core and four transactions a second for that.
RULES = QueueRules(search_rest_ns=250_000_000)
_EVENT = msgspec.json.Decoder(Event)
_ENCODER = msgspec.json.Encoder()


class LogNotFollowedError(InternalError):
    """This replica cannot follow the log: another version wrote it, or something is damaged."""

    code = "astray"


class DivergedError(LogNotFollowedError):
    """The engine of this replica diverged from the log; another checkpoint may work."""

    code = "diverged"


class MissingPluginError(DivergedError):
    """A checkpoint is sound, but names a plugin that this process does not have."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the log: its time, the last entry that it knew, its limit, and the digest of its decisions."""

    now: int
    upto: int
    limit: int
    digest: str


_STEP = msgspec.json.Decoder(Step)


class SealedCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A checkpoint with a digest. Waiting facts are not in it: they are read from the log again.

    Steps up to ``read`` are in it. Releases without digests can read it. An unknown field means a damaged name, which
    must not hide the digest.
    """

    read: int
    engine: bytes
    digest: bytes = b""


_BETWEEN = msgspec.msgpack.Decoder(SealedCheckpoint)


def seal_checkpoint(seq: int, at_ns: int, *, read: int, engine: bytes) -> StoredCheckpoint:
    """Return a checkpoint at an entry of the log, with a digest; steps up to ``read`` are in it."""
    between = SealedCheckpoint(read, engine, _seal(seq, at_ns, read, engine))
    return StoredCheckpoint(seq=seq, at_ns=at_ns, format=BETWEEN, body=msgspec.msgpack.encode(between))


def _seal(seq: int, at_ns: int, read: int, engine: bytes) -> bytes:
    """Return the digest of a checkpoint with its columns, since each column can be damaged."""
    found = blake2b(msgspec.msgpack.encode((BETWEEN, seq, at_ns, read)), digest_size=16)
    found.update(engine)
    return found.digest()


class FollowerState(msgspec.Struct, frozen=True):
    """The complete state of a follower, for another process of this version that continues from it."""

    seq: int
    engine: bytes
    waiting: tuple[tuple[int, Event], ...]
    done: int


class FollowerBackup(NamedTuple):
    """A follower before a step: its engine, the facts that waited, and how many refusals were not logged yet."""

    engine: Engine
    waiting: tuple[tuple[int, Event], ...]
    refusals: int


class RejectedFact(NamedTuple):
    """A fact that the engine rejected: its log entry, and why."""

    seq: int
    why: str
    event: Event
    error: HostlerError


def digest_of_actions(actions: Sequence[Action]) -> str:
    """Return a short digest that differs if the decisions differ."""
    return blake2b(_ENCODER.encode(actions), digest_size=8).hexdigest()


def _known_at(event: Event, now: int) -> Event:
    """Return the fact, not later than the time at which it is known."""
    return event if event.at <= now else msgspec.structs.replace(event, at=now)


class Follower:
    """An engine and its position in the log. One thread at a time may use it."""

    def __init__(self, engine: Engine, seq: int = 0) -> None:
        self.engine = engine
        self.seq = seq  # of the last entry read
        self.refusals: deque[RejectedFact] = deque()  # not logged yet; logging removes them
        self.rejected: list[RejectedFact] = []  # those of our own last step
        self._waiting: deque[tuple[int, Event]] = deque()
        self._own_step = 0  # the entry of a step that this engine has made already
        self._done = 0  # steps up to this entry were made before the checkpoint from which it began
        self.is_torn = False  # it made a step that it has not read in the log
        self._astray: LogNotFollowedError | None = None  # once an entry could not be followed, none behind it can be
        self.due = self.next_due()  # by what was read; while the engine steps it is not asked

    @classmethod
    def begin(cls, registry: Registry | None = None) -> Follower:
        """Begin before the first entry. Every replica begins alike, because later settings are in the log."""
        return cls(Engine(policies_of_empty_log(), rules=RULES, registry=registry))

    @classmethod
    def restore(cls, checkpoint: StoredCheckpoint, registry: Registry | None = None) -> Follower:
        """Begin at a checkpoint."""
        if checkpoint.format not in (_PLAIN, BETWEEN):
            hint = "restore a backup of this version, or use the program that wrote it"
            raise DivergedError(f"the checkpoint has the format {checkpoint.format!r}", hint=hint)
        try:
            if checkpoint.format == _PLAIN:
                return cls(Engine.restore(checkpoint.body, registry), checkpoint.seq)
            between = _BETWEEN.decode(checkpoint.body)
            if between.digest and between.digest != _seal(
                checkpoint.seq, checkpoint.at_ns, between.read, between.engine
            ):
                raise ValueError("its bytes are not those that were written")
            found = cls(Engine.restore(between.engine, registry), checkpoint.seq)
        except (UnknownPluginError, PluginError) as error:
            raise MissingPluginError(f"the checkpoint cannot be read: {error.message}", hint=_PLUGINS) from error
        except Exception as error:  # bytes that are not as they were written may break anything
            raise DivergedError(f"the checkpoint cannot be read: {error}", hint=_ALONE) from error
        found._done = between.read
        return found

    @classmethod
    def resume(cls, state: FollowerState, registry: Registry | None = None) -> Follower:
        """Continue where another follower was."""
        found = cls(Engine.restore(state.engine, registry), state.seq)
        found._waiting.extend(state.waiting)
        found._done = state.done
        found.due = found.next_due()
        return found

    def read(self, entries: Sequence[StoredEntry]) -> None:
        """Take the next entries of the log; LogNotFollowedError, now and later, at one that cannot be followed."""
        self._check()
        for entry in entries:
            if entry.seq != self.seq + 1:
                what = f"entry {entry.seq} of the log follows entry {self.seq}: entries are missing"
                self._astray = DivergedError(what, hint=_ALONE)
                raise self._astray
            try:
                self._take(entry)
            except msgspec.MsgspecError as error:
                what = f"entry {entry.seq} of the log is nothing that this version knows: {error}"
                self._astray = LogNotFollowedError(what, hint=_UPGRADE)
                raise self._astray from error
            except LogNotFollowedError as error:
                self._astray = error
                raise
            self.seq = entry.seq
        self.due = self.next_due()

    def _check(self) -> None:
        if self._astray is not None:
            raise type(self._astray)(self._astray.message, hint=self._astray.hint)

    def _take(self, entry: StoredEntry) -> None:
        if entry.kind == "fact":
            # Between two steps hours may pass. What is counted from a fact is counted from when it was written.
            fact = msgspec.structs.replace(_EVENT.decode(entry.body), at=entry.at_ns)
            self._waiting.append((entry.seq, fact))
        elif entry.kind == "step" and entry.seq == self._own_step:
            self.is_torn = False
        elif entry.kind == "step" and entry.seq > self._done:
            self._repeat(entry.seq, _STEP.decode(entry.body))
        elif entry.kind == "note" and entry.subject == REBUILT:
            what = f"the engine was rebuilt from rows at entry {entry.seq} of the log"
            raise DivergedError(what, hint="begin with the checkpoint that was written there")

    @property
    def is_whole(self) -> bool:
        """Say whether all steps that the engine has made were read in the log."""
        return not self.is_torn and self.seq >= self._done

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies of the next step; the last change may still wait for a step."""
        changes = [event for _, event in self._waiting if isinstance(event, PolicyChanged)]
        return changes[-1].policies if changes else self.engine.policies

    def catch_up(self, now: int, upto: int | None = None) -> list[RejectedFact]:
        """Apply the waiting facts, as known at a time; return those that the engine rejected."""
        refused: list[RejectedFact] = []
        while self._waiting and (upto is None or self._waiting[0][0] <= upto):
            seq, event = self._waiting.popleft()
            try:
                self.engine.apply(_known_at(event, now))
            except HostlerError as error:  # the same on every replica
                if isinstance(event, PolicyChanged) and isinstance(error, UnknownPluginError | PluginError):
                    # The leader built these policies before it wrote them, so this replica lacks one of their plugins.
                    self._astray = LogNotFollowedError(f"entry {seq} of the log: {error.message}", hint=_PLUGINS)
                    raise self._astray from error
                refused.append(RejectedFact(seq, f"{type(event).__name__}: {error.message}", event, error))
        self.refusals += refused
        return refused

    def show(self, twin: Engine, now: int) -> None:
        """Apply the waiting facts to a twin of the engine; this follower does not change."""
        for _, event in self._waiting:
            with suppress(HostlerError):
                twin.apply(_known_at(event, now))

    def next_due(self) -> int | None:
        """Return when a step is worthwhile: now if facts wait, or soon if they only confirm decisions.

        A confirmation tells the engine nothing that lets it decide, so it shares the step of the next fact.
        """
        due = self.engine.next_due()
        if not self._waiting:
            return due
        if not all(self._is_confirmation(event) for _, event in self._waiting):
            return self.engine.now
        soon = self.engine.now + _CONFIRM_NS
        return soon if due is None else min(due, soon)

    def _is_confirmation(self, event: Event) -> bool:
        """Say whether a fact only reports that a guest is where the engine put it, or since when it runs there."""
        if isinstance(event, GuestBound):
            record = self.engine.view.records.get(event.uid)
            return record is not None and record.state in PLACED_STATES and record.host == event.host
        if not isinstance(event, GuestChanged):
            return False
        record = self.engine.view.records.get(event.guest.uid)
        if record is None or record.state not in PLACED_STATES:
            return False
        told = msgspec.structs.replace(
            event.guest, version=record.guest.version, started=record.guest.started, host=record.guest.host,
            on_devices=record.guest.on_devices,
        )  # fmt: skip
        return (told, event.guest.host, event.guest.on_devices) == (record.guest, record.host, record.devices)

    def step(self, now: int, limit: int) -> tuple[Step, list[Action]]:
        """Decide, as the leader. Write the step to the log, or throw this follower away.

        One step takes a fact. Write what is in ``rejected`` together with that step.
        """
        self.is_torn = True
        self.rejected = self.catch_up(now)
        actions = self.engine.step(now, limit)
        return Step(now=now, upto=self.seq, limit=limit, digest=digest_of_actions(actions)), actions

    def backup(self) -> FollowerBackup:
        """Return what ``roll_back`` needs to undo the next step. O(guests)."""
        return FollowerBackup(self.engine.fork(), tuple(self._waiting), len(self.refusals))

    def roll_back(self, backup: FollowerBackup) -> None:
        """Undo a step that was not written, whatever became of it."""
        self.engine = backup.engine
        self._waiting = deque(backup.waiting)
        while len(self.refusals) > backup.refusals:
            self.refusals.pop()
        self.rejected = []
        self.is_torn = False

    def stepped(self, seq: int) -> None:
        """Note the entry of our own step; until it is read, the engine is ahead of the log."""
        self._own_step = seq

    def _repeat(self, seq: int, step: Step) -> None:
        what = f"this replica decided otherwise than the leader in entry {seq} of the log"
        try:
            self.catch_up(step.now, step.upto)
            actions = self.engine.step(step.now, step.limit)
        except Exception as error:  # the leader came through it, so this engine is not as the leader's was
            raise DivergedError(f"{what}: {error}", hint=_ALONE) from error
        if digest_of_actions(actions) != step.digest:
            raise DivergedError(what, hint=f"{_ALONE}; please report it if all are of that version")

    def checkpoint(self, now_ns: int) -> StoredCheckpoint:
        """Return all decision state at this position; not during a step, and not after a failure.

        Waiting facts are not in it, because the step that takes them decides when they happened.
        """
        self._check()
        if not self.is_whole:
            raise InternalError("a checkpoint in the middle of a step", hint="please report it")
        seq = self._waiting[0][0] - 1 if self._waiting else self.seq
        return seal_checkpoint(seq, now_ns, read=self.seq, engine=self.engine.checkpoint())

    def state(self) -> FollowerState:
        """Return the complete state; not while the engine is ahead of the log."""
        if self.is_torn:
            raise InternalError("a copy in the middle of a step", hint="please report it")
        return FollowerState(self.seq, self.engine.checkpoint(), tuple(self._waiting), self._done)
