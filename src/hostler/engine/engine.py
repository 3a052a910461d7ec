"""The engine: facts in, decisions out.

It does no I/O, reads no clock and owns no thread. It is deterministic: the same facts and steps give the same actions
bit for bit, in a simulation, on a live cluster, in a what-if and in a bug report. ``apply`` changes the state by one
fact and notes what improved. ``step`` wakes the guests that the improvement may help, decides what is queued, and
returns actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop

import msgspec

from hostler.engine.cache.reasons import reason_counts
from hostler.engine.cache.wide_rows import DEFAULT_BUDGET, CacheBudget
from hostler.engine.checkpoint import load, save
from hostler.engine.cluster.fact_checks import check_types
from hostler.engine.cycle import Cycle
from hostler.engine.engine_view import EngineView
from hostler.engine.explain import explain
from hostler.engine.facts import Facts, check_time
from hostler.engine.gangs.queue import GangQueue
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.policy.registry import Registry
from hostler.engine.preemption.evictions import Evictions
from hostler.engine.preemption.preemption import Planner
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.queue import QUEUE_NAMES
from hostler.engine.state.records import ASKED, ASSUMED, GROUPED, PREPARING, QUEUED, STATE_NAMES, GuestRecord
from hostler.engine.state.reservations import RESERVATION, Reservations
from hostler.engine.state.state import State
from hostler.engine.verdicts.host_ranks import HostRanking, choose_devices, rank_hosts
from hostler.engine.verdicts.refusals import Refusals, refusals_of
from hostler.engine.wakeups import WaitIndex
from hostler.errors import FactError, UnknownNameError
from hostler.model import (
    Abandon,
    Action,
    Bind,
    Decision,
    Event,
    Explanation,
    GuestsArrived,
    Host,
    HostsJoined,
    Policy,
    QueueRules,
)
from hostler.model.decisions import DecisionNote
from hostler.model.notes import GANG_SEARCHED, PREPARED_TOO_LATE
from hostler.model.vocabulary import note_text, notes_text

__all__ = ["Engine"]


class Engine:
    """Decides where guests go. The first policy is the default for guests that name no policy."""

    def __init__(
        self,
        policies: Sequence[Policy],
        clock_start: int = 0,
        seed: int = 0,
        *,
        rules: QueueRules | None = None,
        registry: Registry | None = None,
        cache_budget: CacheBudget = DEFAULT_BUDGET,
    ) -> None:
        if rules is not None:
            _check_rules(rules)
        self._use(State(policies, clock_start, seed, rules or QueueRules(), registry or Registry(), cache_budget))

    def _use(self, state: State) -> None:
        self.state = state  # for this package and its tests; fronts read ``view``
        self.view = EngineView(state)
        self._evictions = Evictions(state)
        self._facts = Facts(state, self._evictions)
        self._gang_queue = GangQueue(state)
        self._reservations = Reservations(state)
        self._waits = WaitIndex(state)
        self._cycle = Cycle(state, self._evictions)

    # -- driving ---------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Apply a fact; a rejected fact raises an error and leaves the state unchanged."""
        self._facts.apply(event)

    def apply_many(self, batch: GuestsArrived | HostsJoined) -> None:
        """Apply many facts as columns: all of them or none."""
        self._facts.apply(batch)

    def step(self, now: int, limit: int | None = None) -> list[Action]:
        """Decide what is queued, at most ``limit`` guests, and return the actions. Time never goes back.

        Waiting guests are woken at the start of a step, so a limit also bounds how much is decided before others are
        woken.
        """
        state = self.state
        check_time(now)
        state.now = max(state.now, now)
        actions: list[Action] = []
        self._expire(actions)
        self._evictions.evict_unmoved(actions)
        self._bind_ready(actions)
        state.gangs.searches.begin_step(state.now)
        self._waits.wake()
        state.queue.release(state.now)
        for uid, host in state.abandoned.items():
            record = state.guests.get(uid)
            if record is not None:
                actions.append(Abandon(uid, record.guest.name, record.seq, host, notes_text(record.notes)))
        state.abandoned.clear()
        try:
            actions.extend(self._cycle.decide(limit))
        except Exception:
            if not actions:
                raise  # else what is on its way counts; the error comes up again when its guest is the first
        self._evictions.report_ended(actions)
        while state.deadlines and not self._is_live(*state.deadlines[0]):
            heappop(state.deadlines)
        return actions

    def next_due(self) -> int | None:
        """Return when the next step has work: now, a later time, or None if only a new fact can give it work."""
        state = self.state
        if (
            state.ready
            or state.abandoned
            or state.unnominated
            or state.unmoved
            or (state.improved_rows and state.queue.waiting)
            or self._waits.has_news()
        ):
            return state.now
        times = (state.queue.next_due(state.now), self._next_deadline())
        return min((t for t in times if t is not None), default=None)

    def _next_deadline(self) -> int | None:
        """Return the first deadline that matters. A query changes no state, so stale deadlines stay until a step."""
        deadlines = self.state.deadlines
        if not deadlines or self._is_live(*deadlines[0]):
            return deadlines[0][0] if deadlines else None
        return min((at for at, number, uid in deadlines if self._is_live(at, number, uid)), default=None)

    @property
    def is_searching(self) -> bool:
        """Say whether a gang's search is paused, so that another step continues it at once."""
        queue, now = self.state.queue, self.state.now
        return any(queue.is_due(GANG + key, now) for key in self.state.gangs.searches.positions)

    def search_without_rest(self) -> None:
        """Let searches continue in every step, for queries whose caller is waiting."""
        self.state.rules = msgspec.structs.replace(self.state.rules, search_rest_ns=0)
        self.state.gangs.searches.rests = {}

    def pause_with(self, pause: Callable[[], None]) -> None:
        """Call ``pause`` between units of work of about a millisecond. It must not use the engine; twins have none."""
        self.state.pause = pause

    def next_guest(self) -> str | None:
        """Return the uid of the guest that is decided next (for a gang, one member), or None if the queue is empty."""
        head = self.state.queue.head()
        if head is None or not head.startswith(GANG):
            return head
        return next(iter(self.state.gangs.pending(head.removeprefix(GANG))), None)

    def fork(self) -> Engine:
        """Return an independent copy, for what-ifs."""
        twin = Engine.__new__(Engine)
        twin._use(self.state.copy())
        return twin

    def checkpoint(self) -> bytes:
        """Return all decision state; an engine from ``restore`` makes the same decisions as this one."""
        return save(self.state)

    @classmethod
    def restore(
        cls, checkpoint: bytes, registry: Registry | None = None, *, cache_budget: CacheBudget = DEFAULT_BUDGET
    ) -> Engine:
        """Return an engine from a checkpoint."""
        engine = cls.__new__(cls)
        engine._use(load(checkpoint, registry or Registry(), cache_budget))
        return engine

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Return the engine's time."""
        return self.state.now

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies, the default first."""
        return self.state.profiles.policies

    def hosts(self) -> Iterator[Host]:
        """Iterate over the hosts by name."""
        cluster = self.state.cluster
        return (cluster.host(cluster.row_of[name]) for name in cluster.order.names)

    def guests(self) -> Iterator[str]:
        """Iterate over the uids of all guests in order of arrival."""
        return iter(self.state.guests)

    def decision(self, uid: str) -> Decision:
        """Return the last decision about a guest, in short form."""
        state = self.state
        record = state.guests.get(uid)
        if record is None:
            raise UnknownNameError(f"there is no guest with uid {uid!r}")
        reasons, notes = reason_counts(record.reasons), self._notes(record)
        return Decision(
            guest=record.guest.name,
            uid=uid,
            seq=record.seq,
            at=record.decided_at,
            policy=record.guest.spec.policy or state.profiles.policies[0].name,
            state=self.state_of(record),
            attempt=record.attempts,
            host=record.host,
            devices=record.devices,
            total=record.total,
            hosts=record.feasible + sum(c.hosts for c in reasons),
            feasible=record.feasible,
            reasons=reasons,
            note=notes_text(notes),
            notes=notes,
        )

    def _notes(self, record: GuestRecord) -> tuple[DecisionNote, ...]:
        if record.state != GROUPED:
            return record.notes
        gangs, key = self.state.gangs, record.guest.gang
        not_ready = gangs.why_not_ready(key)
        if not_ready is not None:
            return (not_ready,)
        return (DecisionNote(GANG_SEARCHED, key),) if key in gangs.searches.positions else record.notes

    def explain(self, uid: str) -> Explanation:
        """Explain a guest against the current cluster: every host's verdict, the cure, and what would wake it."""
        decision = self.decision(uid)
        state = self.state.copy()  # looking takes bookings off and learns reasons; nothing of that may stay
        state.pause = self.state.pause
        return explain(state, state.guests[uid], decision)

    def refusals(self, uid: str, only: Collection[str] | None = None) -> Refusals:
        """Count the hosts by all reasons for which they reject a waiting guest now; fast even with many hosts."""
        record = self.state.guests.get(uid)
        if record is None:
            raise UnknownNameError(f"there is no guest with uid {uid!r}")
        policy = self.state.profiles.find_number(record.guest.spec.policy)
        return refusals_of(self.state, record, policy, only) if policy != NO_POLICY else ()

    def rank(self, uid: str, hosts: Sequence[str], *, drawn_for: str) -> HostRanking:
        """Rank some hosts for a guest by the first policy; random ties are drawn as for the uid ``drawn_for``."""
        return rank_hosts(self.state, uid, hosts, drawn_for)

    def choose_devices(self, uid: str, host: str, *, drawn_for: str) -> tuple[int, ...] | None:
        """Return the devices that a guest would get on a host, or None if it would not get all. See ``rank``."""
        return choose_devices(self.state, uid, host, drawn_for)

    def would_evict(self, uids: Iterable[str]) -> bool:
        """Say whether any guest would be evicted for one of these waiting guests."""
        planner = Planner(self.state)
        return any(self._would_evict(planner, uid) for uid in uids)

    def _would_evict(self, planner: Planner, uid: str) -> bool:
        state = self.state
        record = state.guests[uid]
        shape = state.shape(record)
        policy = state.wait_key(shape)[1]
        if record.guest.gang or state.profiles.profiles[policy].policy.reclaim:
            advice = self.explain(uid).eviction
            return advice is not None and bool(advice.host) and not advice.why_not
        if not shape.spec.may_preempt or state.quotas.beyond(shape.spec):
            return False
        return planner.plan(shape, policy, frozenset()) is not None

    def state_of(self, record: GuestRecord) -> str:
        """Return the name of a guest's state."""
        if record.state == QUEUED:
            return QUEUE_NAMES[self.state.queue.entries[record.guest.uid].state]
        if record.state == GROUPED:
            entry = self.state.queue.entries.get(GANG + record.guest.gang)
            return STATE_NAMES[GROUPED] if entry is None else QUEUE_NAMES[entry.state]
        return "parked" if self.state.is_parked(record) else STATE_NAMES[record.state]

    # -- internals -------------------------------------------------------------------------------------------------

    def _is_live(self, at: int, number: int, uid: str) -> bool:
        """Say whether a deadline still matters."""
        if uid.startswith(GANG) and self._gang_queue.is_due(uid, at):
            return True
        if uid.startswith(RESERVATION):
            return self._reservations.is_live(uid, at)
        nomination = self.state.nominations.get(uid)
        if nomination is not None and (nomination.deadline, nomination.seq) == (at, number):
            return True
        record = self.state.guests.get(uid)
        if record is None or record.deadline != at:
            return False
        if record.state == ASKED:
            return record.ask == number
        return record.state == PREPARING and record.seq == number and uid not in self.state.ready

    def _expire(self, actions: list[Action]) -> None:
        """Handle deadlines that passed: an answer that may be ignored is ignored; everything else is retried later."""
        state = self.state
        while state.deadlines and state.deadlines[0][0] <= state.now:
            at, number, uid = heappop(state.deadlines)
            if not self._is_live(at, number, uid):
                continue
            if self._evictions.expire_nomination(uid, at):
                continue
            if uid.startswith(GANG):
                self._gang_queue.release(uid, actions)
                continue
            if uid.startswith(RESERVATION):
                self._reservations.on_time(uid)
                continue
            record = state.guests[uid]
            if record.state == PREPARING:
                late = DecisionNote(PREPARED_TOO_LATE)
                actions.append(Abandon(uid, record.guest.name, record.seq, record.host, note_text(late)))
                self._facts.give_back(record, late)
            else:
                self._facts.time_out(record)

    def _bind_ready(self, actions: list[Action]) -> None:
        """Return the binds of guests whose preparation is complete."""
        state = self.state
        for uid in state.ready:
            record = state.guests[uid]
            state.guests[uid] = msgspec.structs.replace(record, state=ASSUMED)
            actions.append(Bind(uid, record.guest.name, record.seq, record.host, record.devices))
        state.ready.clear()


def _check_rules(rules: QueueRules) -> None:
    check_types(rules, "set of queue rules")
    for name in rules.__struct_fields__:
        if not 0 <= getattr(rules, name) < (1000 if name == "jitter_percent" else 2**60):
            raise FactError(f"the queue rules have {getattr(rules, name)} for {name}, which is out of bounds")
