"""The engine of one replica, kept where the log says: facts and steps in order, from a checkpoint on. Pure but for it.

A step stands in the log behind facts that it did not know: those that others wrote while it was decided. ``upto`` says
which it knew, so facts wait here until a step, or the leader before its own step, takes them. Every replica that reads
the same log has the same engine, bit for bit; a digest of what a step decided shows where that ever fails.

A checkpoint bears a digest of its own bytes: neither database notices a bit that its disk lost. One that does not fit
its digest is of no use, and the replica begins with what is before it. Those of releases without digests have none.

Facts bear the times of their writers' clocks. One that is ahead of the step that takes it happened before that step all
the same, so it counts from the step's time: else whoever has a clock that is ahead would take every engine with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from hostler.control.settings import ControlSettings, policies_for
from hostler.control.store.log import Checkpoint, Entry
from hostler.engine import Engine
from hostler.engine.records import PLACED_STATES
from hostler.errors import HostlerError, InternalError
from hostler.model import Action, Event, GuestBound, Policy, PolicyChanged, QueueRules

__all__ = [
    "REBUILT", "RULES", "AstrayError", "DivergedError", "Follower", "FollowerState", "Refusal", "Step", "digest_of",
    "seal_checkpoint",
]  # fmt: skip

_PLAIN = "hostler-engine-1"  # the engine alone, as releases without digests wrote it; still read
BETWEEN = "hostler-engine-between-1"
REBUILT = "engine.rebuilt"  # the subject of a note: from there on an engine counts that was made from rows
_UPGRADE = "run the version of the other replicas here; this one leads nobody meanwhile"
_ALONE = "run the version of the other replicas here; if this one is alone, see 'hostler rebuild --help'"
_CONFIRM_NS = 25_000_000
# Every step is a transaction, and a share of a search takes some 50 ms of the interpreter: a project that searches all
# the time has about a sixth of a core and four transactions a second for that.
RULES = QueueRules(search_rest_ns=250_000_000)
_EVENT = msgspec.json.Decoder(Event)
_ENCODER = msgspec.json.Encoder()


class AstrayError(InternalError):
    """This replica cannot follow the log: it is of another version than whoever wrote it, or something is broken."""

    code = "astray"


class DivergedError(AstrayError):
    """The engine from which a replica began does not lead where the log does; another beginning may."""

    code = "diverged"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step as the log has it: when, after which entry, of how many at most, and what came of it."""

    now: int
    upto: int
    limit: int
    digest: str


_STEP = msgspec.json.Decoder(Step)


class Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Decision state with a digest. Facts may wait for a step: they stand in the log behind it, and are read again.

    Steps up to ``read`` are done. Releases without digests read this, too. An unknown field is a damaged name: it must
    not hide the digest.
    """

    read: int
    engine: bytes
    digest: bytes = b""


_BETWEEN = msgspec.msgpack.Decoder(Between)


def seal_checkpoint(seq: int, at_ns: int, *, read: int, engine: bytes) -> Checkpoint:
    """Return decision state at an entry of the log, with a digest; steps up to ``read`` are in it."""
    between = Between(read, engine, _seal(seq, at_ns, read, engine))
    return Checkpoint(seq=seq, at_ns=at_ns, format=BETWEEN, body=msgspec.msgpack.encode(between))


def _seal(seq: int, at_ns: int, read: int, engine: bytes) -> bytes:
    """Return the digest of all that a checkpoint is: its columns, too, since each of them can be damaged."""
    found = blake2b(msgspec.msgpack.encode((BETWEEN, seq, at_ns, read)), digest_size=16)
    found.update(engine)
    return found.digest()


class FollowerState(msgspec.Struct, frozen=True):
    """All that a follower is, for another process of this version that goes on from there."""

    seq: int
    engine: bytes
    waiting: tuple[tuple[int, Event], ...]
    done: int


class Refusal(NamedTuple):
    """A fact that the engine did not take: which entry of the log it is, and why."""

    seq: int
    why: str
    event: Event
    error: HostlerError


def digest_of(actions: Sequence[Action]) -> str:
    """Return a few letters that differ when decisions do."""
    return blake2b(_ENCODER.encode(actions), digest_size=8).hexdigest()


def _known_at(event: Event, now: int) -> Event:
    """Return a fact that happened no later than when it is known."""
    return event if event.at <= now else msgspec.structs.replace(event, at=now)


class Follower:
    """An engine and the place in the log that it has come to. One thread at a time may use it."""

    def __init__(self, engine: Engine, seq: int = 0) -> None:
        self.engine = engine
        self.seq = seq  # of the last entry read
        self.refusals: deque[Refusal] = deque()  # those that nobody has told of yet; whoever does takes them out
        self.rejected: list[Refusal] = []  # those of our own last step
        self._waiting: deque[tuple[int, Event]] = deque()
        self._own_step = 0  # the entry of a step that this engine has made already
        self._done = 0  # steps up to this entry were made before the checkpoint from which it began
        self.is_torn = False  # it made a step that it has not read in the log
        self._astray: AstrayError | None = None  # once an entry could not be followed, none behind it can be
        self.due = self.next_due()  # by what was read; while the engine steps it is not asked

    @classmethod
    def begin(cls) -> Follower:
        """Begin before the first entry, as every replica does: what is set for whoever leads stands in the log."""
        return cls(Engine(policies_for(ControlSettings()), rules=RULES))

    @classmethod
    def restore(cls, checkpoint: Checkpoint) -> Follower:
        """Begin where a checkpoint was taken."""
        if checkpoint.format not in (_PLAIN, BETWEEN):
            hint = "restore a backup of this version, or use the program that wrote it"
            raise DivergedError(f"the checkpoint has the format {checkpoint.format!r}", hint=hint)
        try:
            if checkpoint.format == _PLAIN:
                return cls(Engine.restore(checkpoint.body), checkpoint.seq)
            between = _BETWEEN.decode(checkpoint.body)
            if between.digest and between.digest != _seal(
                checkpoint.seq, checkpoint.at_ns, between.read, between.engine
            ):
                raise ValueError("its bytes are not those that were written")
            found = cls(Engine.restore(between.engine), checkpoint.seq)
        except Exception as error:  # bytes that are not as they were written may break anything
            raise DivergedError(f"the checkpoint cannot be read: {error}", hint=_ALONE) from error
        found._done = between.read
        return found

    @classmethod
    def resume(cls, state: FollowerState) -> Follower:
        """Go on where another follower was."""
        found = cls(Engine.restore(state.engine), state.seq)
        found._waiting.extend(state.waiting)
        found._done = state.done
        found.due = found.next_due()
        return found

    def read(self, entries: Sequence[Entry]) -> None:
        """Take the next entries of the log; AstrayError, now and from then on, at one that cannot be followed."""
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
                self._astray = AstrayError(what, hint=_UPGRADE)
                raise self._astray from error
            except AstrayError as error:
                self._astray = error
                raise
            self.seq = entry.seq
        self.due = self.next_due()

    def _check(self) -> None:
        if self._astray is not None:
            raise type(self._astray)(self._astray.message, hint=self._astray.hint)

    def _take(self, entry: Entry) -> None:
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
        """Return what the next step decides by: whoever changed it last may not have come to a step."""
        changes = [event for _, event in self._waiting if isinstance(event, PolicyChanged)]
        return changes[-1].policies if changes else self.engine.policies

    def catch_up(self, now: int, upto: int | None = None) -> list[Refusal]:
        """Let the engine take the facts that wait, as known at a time; return those that it rejected."""
        refused: list[Refusal] = []
        while self._waiting and (upto is None or self._waiting[0][0] <= upto):
            seq, event = self._waiting.popleft()
            try:
                self.engine.apply(_known_at(event, now))
            except HostlerError as error:  # the same on every replica
                refused.append(Refusal(seq, f"{type(event).__name__}: {error.message}", event, error))
        self.refusals += refused
        return refused

    def show(self, twin: Engine, now: int) -> None:
        """Let a twin of the engine take the facts that wait here, without taking them ourselves."""
        for _, event in self._waiting:
            with suppress(HostlerError):
                twin.apply(_known_at(event, now))

    def next_due(self) -> int | None:
        """Return when a step is worth while: at once where facts wait, and soon where they only confirm decisions.

        Of those the engine learns nothing that lets it decide, so they share the step of what comes next.
        """
        due = self.engine.next_due()
        if not self._waiting:
            return due
        if not all(self._is_confirmation(event) for _, event in self._waiting):
            return self.engine.now
        soon = self.engine.now + _CONFIRM_NS
        return soon if due is None else min(due, soon)

    def _is_confirmation(self, event: Event) -> bool:
        """Say whether a fact tells that a guest is where the engine put it."""
        if not isinstance(event, GuestBound):
            return False
        record = self.engine.view.records.get(event.uid)
        return record is not None and record.state in PLACED_STATES and record.host == event.host

    def step(self, now: int, limit: int) -> tuple[Step, list[Action]]:
        """Decide, as the leader; the step must be written to the log, or this follower must be thrown away.

        A fact is taken by one step: whoever writes that step down notes with it what is in ``rejected`` then.
        """
        self.is_torn = True
        self.rejected = self.catch_up(now)
        actions = self.engine.step(now, limit)
        return Step(now=now, upto=self.seq, limit=limit, digest=digest_of(actions)), actions

    def stepped(self, seq: int) -> None:
        """Note where our own step was written; until that entry is read, we are ahead of the log."""
        self._own_step = seq

    def _repeat(self, seq: int, step: Step) -> None:
        what = f"this replica decided otherwise than the leader in entry {seq} of the log"
        try:
            self.catch_up(step.now, step.upto)
            actions = self.engine.step(step.now, step.limit)
        except Exception as error:  # the leader came through it, so this engine is not as the leader's was
            raise DivergedError(f"{what}: {error}", hint=_ALONE) from error
        if digest_of(actions) != step.digest:
            raise DivergedError(what, hint=f"{_ALONE}; please report it if all are of that version")

    def checkpoint(self, now_ns: int) -> Checkpoint:
        """Return all decision state at this place of the log; not in the middle of a step, and not once it is astray.

        Facts that wait are no part of it: when they happened is known by the step that takes them.
        """
        self._check()
        if not self.is_whole:
            raise InternalError("a checkpoint in the middle of a step", hint="please report it")
        seq = self._waiting[0][0] - 1 if self._waiting else self.seq
        return seal_checkpoint(seq, now_ns, read=self.seq, engine=self.engine.checkpoint())

    def state(self) -> FollowerState:
        """Return all that this follower is; not while it has made a step that it has not read in the log."""
        if self.is_torn:
            raise InternalError("a copy in the middle of a step", hint="please report it")
        return FollowerState(self.seq, self.engine.checkpoint(), tuple(self._waiting), self._done)
