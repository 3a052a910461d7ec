"""The books of one replica: it follows the log, and while it holds the lease it turns facts into placements.

Path of a VM: its row and its fact are in the log; every replica reads it; the leader steps its engine and writes what
came of it, with the lease's epoch checked in the same transaction; all replicas read that too. A leader whose
transaction failed, or has an unknown outcome, throws its engine away and reads the log again: it never repeats.

An engine begins with the newest checkpoint that leads where the log does: else with the one before it, else with the
log's first entry. A replica without such a beginning gives the lease back and tries again; questions are answered by
what it has, and nothing is decided by it.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from hostler.control.books.answerers import Answerer, Question, ThreadAnswerer
from hostler.control.books.deciding import LEADER, Decided, carry_out
from hostler.control.books.engine_time import EngineTime
from hostler.control.books.follower import AstrayError, DivergedError, Follower, FollowerState
from hostler.control.books.leading import Leadership
from hostler.control.books.ledger import NEWS, News
from hostler.control.books.pacing import Pace
from hostler.control.books.reading import remembered
from hostler.control.books.repeated_holds import RepeatedHolds
from hostler.control.books.thread import AskingLine, EngineThread
from hostler.control.books.waits import Waits
from hostler.control.books.watching import Kind, Subscription, Watchers
from hostler.control.settings import ControlSettings, policies_for
from hostler.control.store import Connection, Database, lease, log
from hostler.control.store.errors import LeaseLostError, LogForgottenError, LogWentBackError, NotFoundError
from hostler.control.vms.telling import BEHIND_OTHERS, gathering, searching
from hostler.engine import Engine
from hostler.engine.warming import warm_kernels
from hostler.errors import ConflictError, HostlerError, UnavailableError
from hostler.model import PolicyChanged

__all__ = ["Books", "NoLeaderError"]

T = TypeVar("T")

_PAGE = 2000
_LOOK_S = 0.5  # between looks at the log when nobody wakes us
_AGAIN_S = 0.5
_PATIENCE = 4  # for a quiet moment: without a checkpoint nothing of the log is ever forgotten
_ASK_ANOTHER = "ask another replica; the service's log says what is wrong"
_ASTRAY_S = 15.0  # at most, between tries to follow a log that could not be followed
_SECOND = 1_000_000_000
_NEWS = msgspec.json.Decoder(News)


class NoLeaderError(UnavailableError):
    """Nobody decides at the moment."""

    code = "agent_service_unavailable"


class Books:
    """This replica's view of everything that is decided, and its part in deciding it."""

    def __init__(
        self,
        database: Database,
        settings: ControlSettings,
        answerer: Answerer | None = None,
        *,
        replica: str = "",
        address: str = "",
        clock: Callable[[], int] = time.time_ns,  # noqa: TID251 - rows and facts bear wall times
        tell: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.replica = replica or uuid.uuid4().hex
        self.watchers = Watchers()
        self._database = database
        self._settings = settings
        self._clock = clock
        self._time = EngineTime(clock)
        self._tell = tell
        self._warn = warn or tell  # what an operator must look at
        self._thread = EngineThread()
        self._pace = Pace(database.traffic)
        self._looks = AskingLine(EngineThread("hostler-look"))
        self._answerer = answerer if answerer is not None else ThreadAnswerer()
        self._answerer.attach(self)
        self._follower = Follower.begin()
        self._is_sound = False  # what the follower knows is what the log says
        self.leadership = Leadership(
            database,
            settings,
            replica=self.replica,
            address=address,
            prepare=self._begin_to_lead,
            may_lead=lambda: self._is_sound,
            tell=tell,
        )
        self.led_since = 0  # when we last began to lead
        self._stepping = asyncio.Lock()  # held from a step until it was read in the log; taken before the next one
        self._reading = asyncio.Lock()
        self._checkpoint_at = 0
        self._unusable: set[int] = set()  # checkpoints, by entry, that this replica could not begin with
        self._seen = 0
        self.is_ready = False
        self.trouble = ""  # why the log cannot be followed, while that is so
        self.steps = 0
        self.rebuilds = 0
        self.unusable_checkpoints = 0  # that it could not begin with, each counted once
        self.refused = 0  # facts that the engine did not take
        self._refused_upto = 0
        self._waits = Waits()
        self._repeated = RepeatedHolds()
        self.before_leading: Callable[[Connection], None] = _nothing  # writes what must be known before we decide
        # Called in the transaction of a step that found no room for the names of hosts, with why by host id.
        self.on_hosts_rejected: Callable[[Connection, Mapping[str, str]], None] = lambda connection, why: None
        self.on_placed: Callable[[float], None] = lambda seconds: None  # told how long each VM waited, while we lead

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """Return the number of the last entry of the log that this replica knows."""
        return self._follower.seq

    @property
    def is_leader(self) -> bool:
        """Say whether this replica decides, as far as it knows."""
        return self.leadership.held is not None

    @property
    def epoch(self) -> int:
        """Return the epoch of our lease; 0 without one."""
        held = self.leadership.held
        return held.epoch if held is not None else 0

    @property
    def longest_s(self) -> float:
        """Return how long the engine's thread kept somebody waiting at worst in the last minute."""
        return self._thread.stalls.longest_s()

    def gathers(self, gang: str) -> str:
        """Say why a gang, by project and name, cannot be tried yet, or that it is being tried; else nothing.

        From any thread.
        """
        view = self._follower.engine.view
        found = view.gangs.known.get(gang)
        if found is None:
            return f"nobody has made gang {gang} yet"
        members = view.gangs.members(gang)
        if lacks := gathering(len(members), found.min_count, gang):
            return lacks
        if view.gangs.is_searched(gang):
            return searching(gang)
        record = view.records.get(members[0]) if members else None
        is_next = record is not None and not record.attempts and view.gangs.is_search_of_tenant(record.guest.spec)
        return BEHIND_OTHERS if is_next else ""

    def tried_at(self, uid: str) -> int:
        """Return when a place was looked for last for a claim, in nanoseconds since 1970; 0: never. From any thread."""
        record = self._follower.engine.view.records.get(uid)
        return record.decided_at if record is not None else 0

    def lacking_names(self, kinds: Iterable[str], models: Iterable[str]) -> str:
        """Say why the engine has no room for names of devices; nothing if it has. From any thread."""
        return self._follower.engine.view.why_no_room_for_names(kinds, models)

    def watch(self, kind: Kind, key: str = "") -> Subscription:
        """Return a subscription to news."""
        return self.watchers.subscribe(kind, key)

    async def ask(self, work: Callable[[Engine], T]) -> tuple[T, int]:
        """Let a work of a moment look at a twin of the engine with all facts that were read.

        Return its result and the number of the last entry that the twin knows. Decisions do not wait for it.
        """
        return await self._looks.ask(self.twin, lambda twin: (work(twin[0]), twin[1]))

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that raises NotFoundError if the engine does not know what it looks for.

        UnavailableError instead of that while the log cannot be followed: the engine may know less than the rows.
        """
        try:
            return await self._answerer.explain(question)
        except NotFoundError as error:
            if not self.trouble:
                raise
            what = "this replica cannot follow the log, so it cannot explain this"
            raise UnavailableError(what, hint=_ASK_ANOTHER) from error

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds; UnavailableError when too many of those wait already.

        An engine that cannot follow the log is not asked what it would decide.
        """
        if self.trouble:
            what = "this replica cannot follow the log, so it does not decide"
            raise UnavailableError(what, hint=_ASK_ANOTHER)
        return await self._answerer.what_if(question)

    async def twin(self) -> tuple[Engine, int]:
        """Return a twin of the engine with all facts that were read, and the number of the last entry."""
        return await self._thread.run(self._fork)

    def _fork(self) -> tuple[Engine, int]:
        follower = self._follower
        twin = follower.engine.fork()
        follower.show(twin, self._clock())
        twin.pause_with(self._pace.pause)
        return twin, follower.seq

    async def follower_state(self) -> FollowerState:
        """Return all that the follower is, between two steps; every entry read later is given to the answerer.

        UnavailableError while a step that may not have been written is looked for.
        """
        async with self._stepping, self._reading:
            follower = self._follower
            if follower.is_torn:
                raise UnavailableError("the log is being read again", hint="ask again in a moment")
            return await self._thread.run(follower.state)

    def now_ns(self) -> int:
        """Return the time at which facts that wait for a step count as known."""
        return self._clock()

    async def leader(self) -> lease.Lease:
        """Return who leads; NoLeaderError."""
        found = await self._database.read(lease.read)
        if not found.is_held:
            raise NoLeaderError("nobody decides at the moment", hint="a replica takes over within seconds; try again")
        return found

    # -- living ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read everything up to now, before the first request is answered; load kernels beside it.

        A replica that cannot follow the log is open too: users read, and ``run`` tries on.
        """
        self._seen = self._database.notifier.count
        await self._thread.run(lambda: warm_kernels(policies_for(self._settings)))
        try:
            await self._rebuild()
            self.is_ready = True
        except AstrayError as error:
            await self._stand_aside(error)

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow, and lead whenever the lease can be had, until told to stop."""
        tasks: list[asyncio.Task[object]] = [
            asyncio.ensure_future(stopping.wait()),
            asyncio.ensure_future(self._follow_for_ever()),
            asyncio.ensure_future(self.leadership.hold_for_ever()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a part that died is an error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._leave()

    async def close(self) -> None:
        """End the threads, each after the work at hand."""
        await self._answerer.close()
        await self._looks.close()
        await asyncio.to_thread(self._thread.close)

    async def _leave(self) -> None:
        """Save where we are and give the lease back, so that nobody waits for us.

        A successor of another version may understand our steps otherwise: behind the checkpoint there must be none.
        """
        held = self.leadership.held
        if held is None:
            return
        try:
            if not (self._is_sound and self._follower.is_whole):  # we were stopped in the middle of something
                await self._database.write(_nothing)  # a step that was being written is written then, or not
                await self._rebuild()
            await self._save_checkpoint(held)
            await self.leadership.release()
        except HostlerError as error:
            self._tell(f"the lease was not given back: {error.message}")

    async def _begin_to_lead(self, held: lease.Lease) -> None:
        """Read what the leader before wrote last, and write what all replicas must know of from now on."""
        async with self._reading:
            await self._read_database()
        policies = policies_for(self._settings)
        known = await self._thread.run(lambda: self._follower.policies)
        body = msgspec.json.encode(PolicyChanged(policies=policies))
        entry = log.NewEntry(at_ns=self._clock(), kind="fact", body=body, actor=LEADER)

        def work(connection: Connection) -> None:
            lease.check_epoch(connection, held.epoch)
            log.append(connection, [entry] if known != policies else [])
            self.before_leading(connection)

        await self._database.write(work)
        await self._read_log()  # the first step must know it
        self.led_since = self._clock()
        self.nudge()

    def nudge(self) -> None:
        """Look at the log now."""
        self._database.notifier.poke()

    # -- following and deciding ------------------------------------------------------------------------------------

    async def _follow_for_ever(self) -> None:
        if not self._is_sound:
            await self._rebuild_patiently()
        while True:
            try:
                await self._read_log()
                idle_s = await self._decide()
            except (LeaseLostError, LogForgottenError) as error:
                self.leadership.lose(error.message)
                await self._rebuild_patiently()
                continue
            except (AstrayError, LogWentBackError) as error:
                await self._stand_aside(error)
                await self._rebuild_patiently()
                continue
            except HostlerError as error:  # what was written is not known: only reading tells
                self._tell(f"the books: {error.message}")
                await asyncio.sleep(_AGAIN_S)
                await self._rebuild_patiently()
                continue
            await self._database.notifier.wait(min(_LOOK_S, idle_s), since=self._seen)

    async def _read_log(self) -> None:
        """Read what is new: what this process wrote from memory, which is most of it where it leads."""
        self._database.history.check()
        async with self._reading:
            told = self._database.notifier.count
            written = self._database.written_after(self._follower.seq)
            if written:
                await self._take_in(written)
            else:
                await self._read_database()
            if not (written and self._database.is_shared):  # else it may have been told of what others wrote, too
                self._seen = told

    async def _read_database(self) -> None:
        """Read all that there is, whoever wrote it."""
        while True:
            entries = await self._database.read(partial(log.read_after, seq=self._follower.seq, limit=_PAGE))
            if entries:
                await self._take_in(entries)
            if len(entries) < _PAGE:
                return

    async def _take_in(self, entries: list[log.Entry]) -> None:
        """Follow the next entries, and tell those who wait for them."""
        follower = self._follower
        await self._thread.run(lambda: follower.read(entries))
        self._answerer.read(entries)
        self._database.history.note(entries[-1])
        self._announce(entries)
        self._tell_refusals(follower)
        for waited_s in self._waits.read(entries, self._clock()):
            if self.is_leader:
                self.on_placed(waited_s)

    def _announce(self, entries: list[log.Entry]) -> None:
        vms: dict[str, None] = {}
        hosts: dict[str, None] = {}
        for entry in entries:
            if entry.kind == "note" and entry.subject == NEWS:
                news = _NEWS.decode(entry.body)
                vms.update(dict.fromkeys(news.vms))
                hosts.update(dict.fromkeys(news.hosts))
        self.watchers.tell(vms, hosts)

    def _tell_refusals(self, follower: Follower) -> None:
        """Tell of facts that were refused, each once: an engine that is made anew refuses them again."""
        while follower.refusals:
            refusal = follower.refusals.popleft()
            if refusal.seq > self._refused_upto:
                self._refused_upto = refusal.seq
                self.refused += 1
                self._warn(f"the engine refused entry {refusal.seq} of the log: {refusal.why}")

    async def _decide(self) -> float:
        """Step until nothing is to be decided now; return in how many seconds something will be."""
        while (held := self.leadership.held) is not None:
            follower = self._follower
            due, now = follower.due, self._time.now(follower.engine.now)
            if due is not None and due <= now:
                async with self._stepping:
                    await self._step(held, follower, now)
                    await self._read_log()
                await self._checkpoint_now_and_then(held, patience=_PATIENCE)
            else:
                await self._checkpoint_now_and_then(held)
                return math.inf if due is None else (due - now) / _SECOND
        return math.inf

    async def _step(self, held: lease.Lease, follower: Follower, now: int) -> None:
        """Decide at a time of the engine, and write it down; whoever gets an error must throw the follower away."""
        at_ns = self._clock()

        def think() -> Decided:
            follower.engine.pause_with(self._pace.pause)
            step, actions = follower.step(now, self._settings.decide_at_once)
            return remembered(follower.engine, step, actions, follower.rejected)

        decided = await self._thread.run(think)
        self._tell_refusals(follower)

        def work(connection: Connection) -> int:
            seq = carry_out(connection, held.epoch, decided, at_ns, self._repeated)
            if decided.rejected_hosts:
                self.on_hosts_rejected(connection, decided.rejected_hosts)
            return seq

        follower.stepped(await self._database.write(work))
        self._repeated.commit()
        self.steps += 1

    async def _checkpoint_now_and_then(self, held: lease.Lease, *, patience: int = 1) -> None:
        """Save where we are when enough was written since; where somebody waits for decisions, more than that."""
        if self._follower.seq - self._checkpoint_at >= patience * self._settings.checkpoint_every:
            await self._save_checkpoint(held)

    async def _save_checkpoint(self, held: lease.Lease) -> None:
        """Save where we are; nothing in the middle of a step: the one before serves on."""
        follower, now = self._follower, self._clock()
        if not follower.is_whole:
            return
        checkpoint = await self._thread.run(lambda: follower.checkpoint(now))
        self._tell_refusals(follower)

        unusable = tuple(sorted(self._unusable))  # the log was followed without them, and who leads says what counts

        def work(connection: Connection) -> None:
            lease.check_epoch(connection, held.epoch)
            log.save_checkpoint(connection, checkpoint, unusable=unusable)

        await self._database.write(work)
        self._checkpoint_at = checkpoint.seq
        self._unusable = set()

    async def _rebuild_patiently(self) -> None:
        """Read everything anew until that works; whoever cannot leads nobody meanwhile."""
        self._is_sound = False
        pause_s = _AGAIN_S
        while True:
            try:
                # Transactions come one after the other: once this one is through, an earlier one has ended as it has.
                await self._database.write(_nothing)
                await self._rebuild()
            except LogWentBackError as error:  # for good: this loop ends with the process
                await self._stand_aside(error)
                await asyncio.sleep(_ASTRAY_S)
            except (UnavailableError, ConflictError) as error:  # nobody else could read now either
                self._tell(f"reading the books again: {error.message}")
                await asyncio.sleep(_AGAIN_S)
            except HostlerError as error:
                await self._stand_aside(error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _ASTRAY_S)
            else:
                break
        if self.trouble:
            self._tell("the log can be followed again")
            self.trouble, self.is_ready = "", True

    async def _stand_aside(self, error: HostlerError) -> None:
        """Leave leading to replicas that can follow the log, and say why we cannot."""
        self._is_sound, self.is_ready = False, False
        if self.trouble != error.message:
            self.trouble = error.message
            self._warn(f"the log cannot be followed, and this replica decides nothing: {error.message}; {error.hint}")
        try:
            await self.leadership.release()
        except HostlerError as failure:  # nobody renews it: it runs out
            self._tell(f"the lease was not given back: {failure.message}")

    async def _rebuild(self) -> None:
        """Make the engine from what the database has, with the newest beginning that leads where the log does.

        DivergedError, that of the newest one, if none does.
        """
        self.rebuilds += 1
        failures: list[tuple[DivergedError, Follower | None]] = []
        before: int | None = None  # checkpoints from this entry on are of no use
        while True:
            checkpoint = await self._database.read(partial(log.checkpoint_before, seq=before))
            self._follower, known = Follower.begin(), self._follower
            try:
                await self._begin_with(checkpoint)
                break
            except DivergedError as error:
                came_to = self._follower if self._follower.seq or checkpoint is None else None
                failures.append((error, came_to))
            except LogForgottenError:  # what is before a checkpoint was removed: nothing is left to begin with
                if not failures:
                    self._follower = known
                    raise
                checkpoint = None
            if checkpoint is None:
                self._follower = next((one for _, one in failures if one is not None), self._follower)
                self._answerer.forget()
                raise failures[0][0]
            before = checkpoint.seq
            self._note_unusable(before, failures[-1][0])
        self._is_sound = True

    async def _begin_with(self, checkpoint: log.Checkpoint | None) -> None:
        """Follow the log from a checkpoint, or from its first entry, to its end."""

        def make() -> Follower:
            return Follower.begin() if checkpoint is None else Follower.restore(checkpoint)

        async with self._reading:
            self._follower = await self._thread.run(make)
            self._answerer.forget()
            # What fell back saves a good checkpoint as soon as it leads.
            every = _PATIENCE * self._settings.checkpoint_every
            self._checkpoint_at = -every if self._unusable else self._follower.seq
            await self._read_database()

    def _note_unusable(self, seq: int, error: DivergedError) -> None:
        """Report a checkpoint that is of no use, once."""
        if seq not in self._unusable:
            self._unusable.add(seq)
            self.unusable_checkpoints += 1
            self._warn(
                f"the checkpoint at entry {seq} of the log cannot be used, trying what is before it: {error.message}"
            )


def _nothing(connection: Connection) -> None:
    """Write nothing."""
