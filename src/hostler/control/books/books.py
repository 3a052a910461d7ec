"""One replica's books: it follows the log, and as the leader it turns facts into placements.

Path of a VM: a request writes its row and a fact to the log. Every replica reads the fact. The leader steps its engine
and writes the result; the same transaction checks the epoch of the lease. All replicas read that step too. If the
transaction fails or its outcome is unknown, the leader discards its engine and reads the log again; it never repeats a
write.

An engine begins with the newest usable checkpoint, otherwise with the one before it, otherwise with the first entry of
the log. A replica without a usable beginning releases the lease and tries again. Until then it answers questions with
the engine that it has, and decides nothing.
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

from hostler.control.books.answers.answerers import Answerer, Question, QuestionQueue, ThreadAnswerer, service_thread
from hostler.control.books.compute_pauses import ComputePauses
from hostler.control.books.decision_log import NO_DECISION_LOG, DecisionLine, DecisionLog
from hostler.control.books.decisions import LEADER, StepOutcome, carry_out
from hostler.control.books.follower import DivergedError, Follower, FollowerState, LogNotFollowedError
from hostler.control.books.leadership import EngineTime, ReplicaLeadership
from hostler.control.books.ledger import NEWS, ChangeNotice
from hostler.control.books.repeated_holds import RepeatedHolds
from hostler.control.books.subscriptions import Kind, Subscription, Subscriptions
from hostler.control.books.waiting_vms import PlacementWaits, summarize_step
from hostler.control.own_plugins import OwnPluginSet, with_out_of_service
from hostler.control.settings import ControlSettings, declared_policies, policies_for
from hostler.control.store import Connection, Database
from hostler.control.store.errors import LeaseLostError, LogForgottenError, LogWentBackError, NotFoundError
from hostler.control.store.history import lease, log
from hostler.control.vms.status_texts import BEHIND_OTHERS, describe_gang_search, describe_incomplete_gang
from hostler.engine import Engine
from hostler.engine.warmup import warm_kernels
from hostler.errors import ConflictError, HostlerError, PluginError, UnavailableError
from hostler.model import Policy, PolicyChanged
from hostler.queries import MixRenewal, with_placed_mixes
from hostler.runtime.tasks import run_parts

__all__ = ["Books", "NoLeaderError"]

T = TypeVar("T")

_PAGE = 2000
_LOOK_S = 0.5  # between checks of the log without a notice
_AGAIN_S = 0.5
_PATIENCE = 4  # for a quiet moment: without a checkpoint nothing of the log is ever forgotten
_ASK_ANOTHER = "ask another replica; the service's log says what is wrong"
_ASTRAY_S = 15.0  # at most, between tries to follow a log that could not be followed
_SECOND = 1_000_000_000
_NEWS = msgspec.json.Decoder(ChangeNotice)


class NoLeaderError(UnavailableError):
    """No replica decides at the moment."""

    code = "agent_service_unavailable"


class Books:
    """This replica's view of all decisions, and its part in deciding."""

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
        decisions: DecisionLog = NO_DECISION_LOG,
    ) -> None:
        self.replica = replica or uuid.uuid4().hex
        self.subscriptions = Subscriptions()
        self._database = database
        self._settings = settings
        self._clock = clock
        self._time = EngineTime(clock)
        self._tell = tell
        self._warn = warn or tell  # what an operator must look at
        self._decisions = decisions
        self._thread = service_thread("hostler-engine")
        self._pace = ComputePauses(database.traffic)
        self._looks = QuestionQueue(service_thread("hostler-look"))
        self._answerer = answerer if answerer is not None else ThreadAnswerer()
        self._answerer.attach(self)
        self._plugins = OwnPluginSet(settings)
        self._follower = Follower.begin(self._plugins.registry)
        self._is_sound = False  # what the follower knows is what the log says
        self.leadership = ReplicaLeadership(
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
        self._waits = PlacementWaits()
        self._repeated = RepeatedHolds()
        self._mixes = MixRenewal(declared_policies(settings))
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
    def strategies(self) -> frozenset[str]:
        """Return the strategies that are in force. Those of new settings are, once a leader has declared them."""
        return frozenset(policy.name for policy in self._follower.engine.policies)

    @property
    def is_leader(self) -> bool:
        """Say whether this replica leads, as far as it knows."""
        return self.leadership.held is not None

    @property
    def epoch(self) -> int:
        """Return the epoch of our lease; 0 without one."""
        held = self.leadership.held
        return held.epoch if held is not None else 0

    @property
    def longest_s(self) -> float:
        """Return the longest wait for the engine's thread in the last minute."""
        return self._thread.longest_stall_s()

    def gathers(self, gang: str) -> str:
        """Say why a gang, by project and name, cannot be tried yet, or that it is being tried; otherwise nothing.

        From any thread.
        """
        view = self._follower.engine.view
        found = view.gangs.known.get(gang)
        if found is None:
            return f"there is no gang {gang} yet"
        members = view.gangs.members(gang)
        if lacks := describe_incomplete_gang(len(members), found.min_count, gang):
            return lacks
        if view.gangs.is_searched(gang):
            return describe_gang_search(gang)
        record = view.records.get(members[0]) if members else None
        is_next = record is not None and not record.attempts and view.gangs.is_search_of_tenant(record.guest.spec)
        return BEHIND_OTHERS if is_next else ""

    def tried_at(self, uid: str) -> int:
        """Return when a place was last looked for, in nanoseconds since 1970; 0: never. From any thread."""
        record = self._follower.engine.view.records.get(uid)
        return record.decided_at if record is not None else 0

    def lacking_names(self, kinds: Iterable[str], models: Iterable[str]) -> str:
        """Say why the engine has no room for these device names; empty if it has. From any thread."""
        return self._follower.engine.view.why_no_room_for_names(kinds, models)

    def watch(self, kind: Kind, key: str = "") -> Subscription:
        """Return a subscription to news."""
        return self.subscriptions.subscribe(kind, key)

    async def ask(self, work: Callable[[Engine], T]) -> tuple[T, int]:
        """Run a short function on a twin of the engine with all facts that were read.

        Return its result and the number of the last entry that the twin knows. Decisions do not wait for it.
        """
        return await self._looks.ask(self.twin, lambda twin: (work(twin[0]), twin[1]))

    async def explain(self, question: Question[T]) -> T:
        """Answer a question; it raises NotFoundError if the engine does not know its subject.

        If the log cannot be followed, it raises UnavailableError instead, because the engine may know less than the
        rows.
        """
        try:
            return await self._answerer.explain(question)
        except NotFoundError as error:
            if not self.trouble:
                raise
            what = "this replica cannot follow the log, so it cannot explain this"
            raise UnavailableError(what, hint=_ASK_ANOTHER) from error

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds; UnavailableError if too many wait already.

        While the log cannot be followed, no what-if is answered.
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
        """Return the complete state of the follower; later entries are passed to the answerer.

        UnavailableError while it is unknown whether a step was written.
        """
        async with self._stepping, self._reading:
            follower = self._follower
            if follower.is_torn:
                raise UnavailableError("the log is being read again", hint="ask again in a moment")
            return await self._thread.run(follower.state)

    def now_ns(self) -> int:
        """Return the time at which waiting facts count as known."""
        return self._clock()

    async def leader(self) -> lease.LeaderLease:
        """Return the leader; NoLeaderError."""
        found = await self._database.read(lease.read)
        if not found.is_held:
            raise NoLeaderError(
                "no replica is deciding at the moment", hint="a replica takes over within seconds; try again"
            )
        return found

    # -- living ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the log to its end before the first request is answered; load kernels meanwhile.

        A replica that cannot follow the log opens too: clients can read, and ``run`` keeps trying.
        """
        self._seen = self._database.notifier.count
        await self._thread.run(lambda: warm_kernels(policies_for(self._settings.without_own)))
        try:
            await self._rebuild()
            self.is_ready = True
        except LogNotFollowedError as error:
            await self._stand_aside(error)

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow the log, and lead whenever the lease is free, until told to stop."""
        parts = {
            "stop": stopping.wait(),
            "follow": self._follow_for_ever(),
            "lead": self.leadership.hold_for_ever(),
        }
        try:
            await run_parts(parts)
        finally:
            await self._leave()

    async def close(self) -> None:
        """End the threads, each after its current work."""
        await self._answerer.close()
        await self._looks.close()
        await asyncio.to_thread(self._thread.close)

    async def _leave(self) -> None:
        """Save a checkpoint and release the lease, so that a successor need not wait.

        A successor of another version may decide differently, so no step may be behind that checkpoint.
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
            self._tell(f"the lease was not released: {error.message}")

    async def _begin_to_lead(self, held: lease.LeaderLease) -> None:
        """Read what the leader before wrote last, and write the settings that all replicas need."""
        async with self._reading:
            await self._read_database()
        declared = declared_policies(self._settings)
        policies, known = await self._thread.run(
            lambda: (
                self._in_service(with_placed_mixes(declared, self._follower.engine.view)),
                self._follower.policies,
            )
        )
        change = PolicyChanged(policies=policies) if known != policies else None
        await self._tell_all(held, change, self.before_leading)
        await self._read_log()  # the first step must know it
        self.led_since = self._clock()
        self.nudge()

    async def _tell_all(
        self, held: lease.LeaderLease, fact: PolicyChanged | None, more: Callable[[Connection], None] | None = None
    ) -> None:
        """Write a fact to the log, if there is one, and ``more`` in the same transaction."""
        body = msgspec.json.encode(fact)
        entry = log.NewEntry(at_ns=self._clock(), kind="fact", body=body, actor=LEADER)

        def work(connection: Connection) -> None:
            lease.check_epoch(connection, held.epoch)
            log.append(connection, [entry] if fact is not None else [])
            if more is not None:
                more(connection)

        await self._database.write(work)

    async def _renew_mixes(self, held: lease.LeaderLease, now: int) -> None:
        """Write the typical mix of the placed VMs to the log, if it changed."""
        self._mixes.note_news()
        due = self._mixes.due()
        if due is None or due > now:
            return
        follower = self._follower
        change = await self._thread.run(lambda: self._mixes.renew(follower.engine, now))
        if change is not None:
            await self._tell_all(held, change)
            await self._read_log()

    def nudge(self) -> None:
        """Check the log now."""
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
            except (LogNotFollowedError, LogWentBackError) as error:
                await self._stand_aside(error)
                await self._rebuild_patiently()
                continue
            except HostlerError as error:  # what was written is not known: only reading tells
                self._tell(f"decisions are delayed: {error.message}")
                await asyncio.sleep(_AGAIN_S)
                await self._rebuild_patiently()
                continue
            self._decisions.report_omissions()
            await self._database.notifier.wait(min(_LOOK_S, idle_s), since=self._seen)

    async def _read_log(self) -> None:
        """Read new entries: from memory what this process wrote itself, which is most of it on the leader."""
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
        """Read all new entries from the database."""
        while True:
            entries = await self._database.read(partial(log.read_after, seq=self._follower.seq, limit=_PAGE))
            if entries:
                await self._take_in(entries)
            if len(entries) < _PAGE:
                return

    async def _take_in(self, entries: list[log.StoredEntry]) -> None:
        """Follow the next entries and notify subscribers."""
        follower = self._follower
        await self._thread.run(lambda: follower.read(entries))
        self._answerer.read(entries)
        self._database.history.note(entries[-1])
        self._announce(entries)
        self._tell_refusals(follower)
        for waited_s in self._waits.read(entries, self._clock()):
            if self.is_leader:
                self.on_placed(waited_s)

    def _announce(self, entries: list[log.StoredEntry]) -> None:
        vms: dict[str, None] = {}
        hosts: dict[str, None] = {}
        for entry in entries:
            if entry.kind == "note" and entry.subject == NEWS:
                news = _NEWS.decode(entry.body)
                vms.update(dict.fromkeys(news.vms))
                hosts.update(dict.fromkeys(news.hosts))
        self.subscriptions.notify(vms, hosts)

    def _tell_refusals(self, follower: Follower) -> None:
        """Log rejected facts, each once: a rebuilt engine rejects them again."""
        while follower.refusals:
            refusal = follower.refusals.popleft()
            if refusal.seq > self._refused_upto:
                self._refused_upto = refusal.seq
                self.refused += 1
                self._warn(f"the engine rejected entry {refusal.seq} of the log: {refusal.why}")

    async def _decide(self) -> float:
        """Step until there is nothing to decide; return in how many seconds there will be."""
        while (held := self.leadership.held) is not None:
            follower = self._follower
            due, now = follower.due, self._time.now(follower.engine.now)
            if due is not None and due <= now:
                await self._renew_mixes(held, now)
                async with self._stepping:
                    await self._step(held, follower, now)
                    await self._read_log()
                await self._checkpoint_now_and_then(held, patience=_PATIENCE)
            else:
                await self._checkpoint_now_and_then(held)
                return math.inf if due is None else (due - now) / _SECOND
        return math.inf

    def _in_service(self, policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        """Return policies that can be built: those whose own plugins fail at that are out of service."""
        while True:
            try:
                Engine(policies, registry=self._plugins.registry)
            except PluginError as failure:
                reduced = with_out_of_service(policies, failure)
                if reduced == policies:
                    raise
                self._warn(f"{failure.message}; its strategies are out of service until a restart")
                policies = reduced
            else:
                return policies

    async def _suspend(self, held: lease.LeaderLease, failure: PluginError) -> None:
        """Take the policies of a failed plugin out of service, by a fact that all replicas read."""
        policies = self._follower.policies
        reduced = with_out_of_service(policies, failure)
        if reduced == policies:
            raise failure
        names = ", ".join(one.name for one, other in zip(policies, reduced, strict=True) if one != other)
        self._warn(f"{failure.message}; out of service until a restart: strategy {names}")
        await self._tell_all(held, PolicyChanged(policies=reduced))
        await self._read_log()
        self._checkpoint_at = -_PATIENCE * self._settings.checkpoint_every  # none of its answers is needed after that

    async def _step(self, held: lease.LeaderLease, follower: Follower, now: int) -> None:
        """Decide at an engine time and write the step; after an error the follower must be discarded."""
        at_ns = self._clock()

        def think() -> tuple[StepOutcome, list[DecisionLine]]:
            follower.engine.pause_with(self._pace.pause)
            step, actions = follower.step(now, self._settings.decide_at_once)
            outcome = summarize_step(follower.engine, step, actions, follower.rejected)
            return outcome, self._decisions.describe(follower.engine, outcome)

        def think_with_plugins() -> tuple[StepOutcome, list[DecisionLine]] | PluginError:
            if not self._plugins.concern(follower.policies):
                return think()
            backup = follower.backup()
            self._plugins.forget_failures()
            failure: PluginError | None = None
            try:
                thought = think()
            except PluginError as error:
                failure = error
            failure = self._plugins.take_failure() or failure
            if failure is None:
                return thought
            follower.roll_back(backup)
            return failure

        thought = await self._thread.run(think_with_plugins)
        if isinstance(thought, PluginError):
            await self._suspend(held, thought)
            return
        decided, lines = thought
        self._tell_refusals(follower)

        def work(connection: Connection) -> int:
            seq = carry_out(connection, held.epoch, decided, at_ns, self._repeated)
            if decided.rejected_hosts:
                self.on_hosts_rejected(connection, decided.rejected_hosts)
            return seq

        follower.stepped(await self._database.write(work))
        self._repeated.commit()
        self.steps += 1
        self._decisions.write(lines)

    async def _checkpoint_now_and_then(self, held: lease.LeaderLease, *, patience: int = 1) -> None:
        """Save a checkpoint after enough entries; while decisions wait, after more of them."""
        if self._follower.seq - self._checkpoint_at >= patience * self._settings.checkpoint_every:
            await self._save_checkpoint(held)

    async def _save_checkpoint(self, held: lease.LeaderLease) -> None:
        """Save a checkpoint; nothing in the middle of a step, since the previous one still serves."""
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
        """Rebuild the engine, and try again until that works; meanwhile this replica does not lead."""
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
            except (UnavailableError, ConflictError) as error:  # no other replica could read now either
                self._tell(f"reading the log again: {error.message}")
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
        """Leave leading to replicas that can follow the log, and log why this one cannot."""
        self._is_sound, self.is_ready = False, False
        if self.trouble != error.message:
            self.trouble = error.message
            self._warn(f"the log cannot be followed, and this replica decides nothing: {error.message}; {error.hint}")
        try:
            await self.leadership.release()
        except HostlerError as failure:  # without a renewal it runs out
            self._tell(f"the lease was not released: {failure.message}")

    async def _rebuild(self) -> None:
        """Build the engine from the database, with the newest checkpoint that works.

        If none works, DivergedError of the newest one.
        """
        self.rebuilds += 1
        failures: list[tuple[DivergedError, Follower | None]] = []
        before: int | None = None  # checkpoints from this entry on are of no use
        while True:
            checkpoint = await self._database.read(partial(log.checkpoint_before, seq=before))
            self._follower, known = Follower.begin(self._plugins.registry), self._follower
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

    async def _begin_with(self, checkpoint: log.StoredCheckpoint | None) -> None:
        """Follow the log from a checkpoint, or from its first entry, to its end."""

        def make() -> Follower:
            registry = self._plugins.registry
            return Follower.begin(registry) if checkpoint is None else Follower.restore(checkpoint, registry)

        async with self._reading:
            self._follower = await self._thread.run(make)
            self._answerer.forget()
            # What fell back saves a good checkpoint as soon as it leads.
            every = _PATIENCE * self._settings.checkpoint_every
            self._checkpoint_at = -every if self._unusable else self._follower.seq
            await self._read_database()

    def _note_unusable(self, seq: int, error: DivergedError) -> None:
        """Log an unusable checkpoint, once."""
        if seq not in self._unusable:
            self._unusable.add(seq)
            self.unusable_checkpoints += 1
            self._warn(
                f"the checkpoint at entry {seq} of the log cannot be used, trying what is before it: {error.message}"
            )


def _nothing(connection: Connection) -> None:
    """Write nothing."""
