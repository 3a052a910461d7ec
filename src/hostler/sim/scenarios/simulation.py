"""One run of a scenario in virtual time on the real engine, and its measurement.

If guests only arrive and end, one kernel runs the whole scenario with the same decisions.

The path of a guest: its arrival is an event; a step binds it; its end is put on the agenda; the end is an event. Guests
that are evicted, failed or moved are submitted again under a new uid, with their remaining work. The invariant: the
engine gets all events of one moment before it decides, in the order ends, hosts, arrivals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush

import msgspec
import numpy as np

from hostler.engine import Engine, Registry
from hostler.engine.replay import ReplayResult, can_replay, replay
from hostler.errors import InternalError
from hostler.model import (
    MEMORY,
    Action,
    Answered,
    Ask,
    Bind,
    Defer,
    Event,
    Evict,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    Nominate,
    Policy,
    QueueRules,
    amount_of,
)
from hostler.queries import Carrier, apply_tenancy, run_until_idle, with_mixes
from hostler.queries.runs import NO_ANSWER
from hostler.sim.scenarios.history import DROPPED, FINISHED, GAVE_UP, RUNNING, WAITING, HistoryWriter, RunHistory
from hostler.sim.scenarios.outcome import ScenarioOutcome, measure
from hostler.sim.scenarios.scenario import Outage, Scenario
from hostler.sim.workload import FOREVER, Workload

__all__ = ["play_scenario", "run_scenario", "simulate"]

_END, _BACK, _OUTAGE, _GONE, _GIVE_UP = range(5)  # what stands in the agenda, in the order of one moment
_GIB = 2**30
_MOST_STEPS = 10_000  # at one moment
_QUIET_STEPS = 3  # without a bind or an eviction, when nothing else is to come
# Facts are complete here and wake whom they cure; the flush is a net for what only time changes.
_RULES = QueueRules(flush_after_ns=6 * 3600 * 10**9)


def simulate(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    registry: Registry | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunHistory:
    """Play a scenario to its end."""
    return _Simulation(scenario, policy, seed, registry, progress or (lambda _: None)).run()


class _Simulation(Carrier):
    def __init__(
        self, scenario: Scenario, policy: Policy, seed: int, registry: Registry | None, progress: Callable[[int], None]
    ) -> None:
        workload = scenario.workload
        others = [other for other in scenario.policies if other.name != policy.name]
        self._scenario = scenario
        self._workload = workload
        self._engine = Engine([policy, *others], 0, seed, rules=_RULES, registry=registry)
        self._progress = progress
        count = len(workload)
        self._writer = HistoryWriter()
        self._status = [WAITING] * count
        self._waited = [0] * count
        self._starts = [0] * count
        self._left: list[int] = workload.runs_ns.tolist()  # work that is still to be done
        self._since = [0] * count  # when it was submitted, or started
        self._attempt = [0] * count
        self._arrives: list[int] = workload.arrives_ns.tolist()
        self._runs: list[int] = workload.runs_ns.tolist()
        self._spec_of: list[int] = workload.spec_of.tolist()
        self._guest_of: dict[str, int] = {}  # of uids that the engine knows
        self._uid_of: dict[int, str] = {}
        self._place: dict[int, tuple[int, tuple[int, ...]]] = {}  # where a guest runs
        self._row_of = {host.name: row for row, host in enumerate(workload.hosts)}
        self._on_row: list[dict[int, None]] = [{} for _ in workload.hosts]
        self._away = [0] * len(workload.hosts)  # outages that keep a host away
        self._closed = [0] * len(workload.hosts)  # … and that keep guests from coming
        self._agenda: list[tuple[int, int, int, int, int]] = []  # time, what, number, guest or outage, attempt
        self._unfinished = Counter(workload.gang_of.tolist())  # members by gang
        self._entries = 0
        self._came = 0
        self._has_moved = False  # whether a guest started or left at this moment

    def run(self) -> RunHistory:
        """Run the whole scenario."""
        self._open()
        first = self._arrives[0] if self._arrives else 0
        now, last, quiet = 0, 0, 0
        while (due := self._next(quiet)) is not None:
            if self._scenario.until_ns and due > self._scenario.until_ns:
                break
            now = max(now, due)
            moved = self._happen(now)
            moved |= self._settle(now)
            last = now if moved else last
            quiet = 0 if moved or self._agenda or self._came < len(self._workload) else quiet + 1
        ends = max(last, self._scenario.until_ns, 1)  # tries in vain after that are no part of it
        return self._writer.to_history(self._status, self._waited, self._starts, min(first, ends), ends)

    # -- time ------------------------------------------------------------------------------------------------------

    def _next(self, quiet: int) -> int | None:
        """Return when something happens next, or None when nothing more can."""
        times = []
        if self._came < len(self._workload):
            times.append(self._arrives[self._came])
        if self._agenda:
            times.append(self._agenda[0][0])
        if times or quiet < _QUIET_STEPS:
            due = self._engine.next_due()
            if due is not None and (times or self._engine.view.queue_length or due <= self._engine.now):
                times.append(due)
        return min(times, default=None)

    def _plan(self, at: int, what: int, which: int, attempt: int = 0) -> None:
        self._entries += 1
        heappush(self._agenda, (at, what, self._entries, which, attempt))

    def _tell(self, event: Event) -> None:
        self._engine.apply(event)

    # -- what happens ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        scenario = self._scenario
        apply_tenancy(self._engine, scenario.tenancy)
        self._engine.apply_many(HostsJoined(hosts=self._workload.hosts))
        for gang in self._workload.gangs:
            self._tell(GangChanged(gang=gang))
        for at, guest in enumerate(scenario.running):
            self._tell(GuestArrived(guest=guest))
            devices = self._engine.decision(guest.uid).devices
            self._writer.note(0, len(self._workload) + at, self._row_of[guest.host], 1, devices)
        for at, outage in enumerate(scenario.outages):
            self._plan(outage.at_ns, _OUTAGE, at)

    def _happen(self, now: int) -> bool:
        """Send the engine all events of a moment. Return whether there were any."""
        happened = False
        while self._agenda and self._agenda[0][0] <= now:
            _, what, _, which, attempt = heappop(self._agenda)
            happened = True
            if what == _OUTAGE:
                self._begin(self._scenario.outages[which], which, now)
            elif what == _BACK:
                self._come_back(self._scenario.outages[which], now)
            elif attempt == self._attempt[which]:
                self._follow(what, which, now)
        workload = self._workload
        while self._came < len(workload) and self._arrives[self._came] <= now:
            guest = self._came
            self._came += 1
            happened = True
            self._progress(1)
            self._submit(guest, now)
        return happened

    def _follow(self, what: int, guest: int, now: int) -> None:
        if what == _END:
            self._leave(guest, now)
            self._status[guest] = FINISHED
            self._shrink_gang(guest)
        elif what == _GONE:
            self._begin_again(guest, now, "restarts")
        elif guest not in self._place and self._status[guest] == WAITING:
            self._drop(guest, now, GAVE_UP)

    def _shrink_gang(self, guest: int) -> None:
        """Ask no more of a gang than there are members whose work is not done."""
        number = int(self._workload.gang_of[guest]) if len(self._workload.gang_of) else -1
        if number < 0:
            return
        self._unfinished[number] -= 1
        gang = self._workload.gangs[number]
        if 0 < self._unfinished[number] < gang.min_count:
            self._tell(GangChanged(gang=msgspec.structs.replace(gang, min_count=self._unfinished[number])))

    def _submit(self, guest: int, now: int) -> None:
        workload = self._workload
        attempt = self._attempt[guest]
        name = workload.names[guest]
        uid = f"{name}~{attempt}" if attempt else name
        gang = (
            workload.gangs[workload.gang_of[guest]].key
            if len(workload.gang_of) and workload.gang_of[guest] >= 0
            else ""
        )
        self._guest_of[uid] = guest
        self._uid_of[guest] = uid
        self._since[guest] = now
        self._status[guest] = WAITING
        self._writer.note_queue(now, 1)
        if self._scenario.fixed_end and self._runs[guest] != FOREVER:
            self._plan(self._arrives[guest] + self._runs[guest], _GIVE_UP, guest, attempt)
        elif self._scenario.give_up_ns:
            self._plan(now + self._scenario.give_up_ns, _GIVE_UP, guest, attempt)
        self._tell(
            GuestArrived(at=now, guest=Guest(name=name, uid=uid, spec=workload.specs[self._spec_of[guest]], gang=gang))
        )

    def _settle(self, now: int) -> bool:
        """Let the engine decide until it is idle at this moment. Return whether any guest moved."""
        self._has_moved = False
        if run_until_idle(self._engine, now, self, most_steps=_MOST_STEPS) is not None:
            raise InternalError(f"the engine does not come to rest at {now} ns of scenario {self._scenario.name!r}")
        return self._has_moved

    def carry_out(self, actions: list[Action], now: int) -> bool:
        """Let guests start and leave."""
        waits = {action.uid for action in actions if isinstance(action, Nominate) and action.host}
        for action in actions:
            if isinstance(action, Bind):
                self._has_moved = True
                self._start(self._guest_of[action.uid], action, now)
            elif isinstance(action, Evict):
                self._has_moved = True
                self._evict(action.uid, now)
            elif isinstance(action, Ask):
                self._tell(Answered(at=now, uid=action.uid, ask=action.ask, error=NO_ANSWER))
            elif isinstance(action, Defer) and self._scenario.drops and action.uid not in waits:
                guest = self._guest_of.get(action.uid)
                if guest is not None and action.uid not in self._engine.view.nominations:
                    self._drop(guest, now, DROPPED)
        return False

    # -- guests ----------------------------------------------------------------------------------------------------

    def _start(self, guest: int, action: Bind, now: int) -> None:
        row = self._row_of[action.host]
        self._tell(GuestBound(at=now, uid=action.uid, host=action.host))
        self._waited[guest] += now - self._since[guest]
        self._starts[guest] += 1
        self._status[guest] = RUNNING
        self._since[guest] = now
        self._place[guest] = (row, action.devices)
        self._on_row[row][guest] = None
        self._writer.note(now, guest, row, 1, action.devices)
        self._writer.note_queue(now, -1)
        if self._left[guest] == FOREVER:
            return
        end = now + self._left[guest]
        if self._scenario.fixed_end:
            end = max(self._arrives[guest] + self._runs[guest], now)
        self._plan(end, _END, guest, self._attempt[guest])

    def _leave(self, guest: int, now: int) -> None:
        """Take a running guest off its host."""
        row, devices = self._place.pop(guest)
        del self._on_row[row][guest]
        self._writer.note(now, guest, row, -1, devices)
        self._forget(guest, now)

    def _forget(self, guest: int, now: int) -> None:
        uid = self._uid_of.pop(guest)
        del self._guest_of[uid]
        self._attempt[guest] += 1
        self._tell(GuestLeft(at=now, uid=uid))

    def _drop(self, guest: int, now: int, status: int) -> None:
        self._waited[guest] += now - self._since[guest]
        self._writer.note_queue(now, -1)
        self._forget(guest, now)
        self._status[guest] = status

    def _evict(self, uid: str, now: int) -> None:
        guest = self._guest_of.get(uid)
        if guest is None:  # one that ran from the start goes for good
            self._tell(GuestLeft(at=now, uid=uid))
            return
        self._writer.counted["evictions"] += 1
        if self._scenario.grace_ns:
            self._plan(now + self._scenario.grace_ns, _GONE, guest, self._attempt[guest])
        else:
            self._begin_again(guest, now, "restarts")

    def _begin_again(self, guest: int, now: int, why: str, *, keeps: bool = False, more: int = 0) -> None:
        """Submit a running guest again, with the work that is left; what was not saved is lost."""
        if guest not in self._place:
            return
        done = now - self._since[guest]
        saved = self._scenario.checkpoint_ns[self._spec_of[guest]]
        kept = done if keeps else (done // saved * saved if saved else 0)
        self._writer.counted[why] += 1
        self._writer.counted["lost_work_ns"] += done - kept
        if self._left[guest] != FOREVER:
            self._left[guest] = max(self._left[guest] - kept, 1) + more
        self._leave(guest, now)
        self._submit(guest, now)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def _begin(self, outage: Outage, which: int, now: int) -> None:
        row = self._row_of[outage.host]
        host = self._workload.hosts[row]
        guests = list(self._on_row[row])
        self._plan(now + outage.lasts_ns, _BACK, which)
        if outage.kind == "fail":
            self._writer.counted["host_failures"] += 1
            self._away[row] += 1
            for guest in guests:
                self._begin_again(guest, now, "restarts")
            if self._away[row] == 1:
                self._tell(HostLeft(at=now, name=host.name))
            return
        self._closed[row] += 1
        if not self._away[row]:
            self._tell(HostChanged(at=now, host=msgspec.structs.replace(host, cordoned=True)))
        for guest in guests if outage.kind != "stay" else ():
            if outage.kind == "restart":
                self._begin_again(guest, now, "restarts")
            else:
                self._begin_again(guest, now, "migrations", keeps=True, more=self._cost_of_moving(guest))

    def _come_back(self, outage: Outage, now: int) -> None:
        row = self._row_of[outage.host]
        (self._away if outage.kind == "fail" else self._closed)[row] -= 1
        if self._away[row]:
            return
        host = msgspec.structs.replace(self._workload.hosts[row], cordoned=self._closed[row] > 0)
        self._tell(HostJoined(at=now, host=host) if outage.kind == "fail" else HostChanged(at=now, host=host))

    def _cost_of_moving(self, guest: int) -> int:
        memory = amount_of(self._workload.spec(guest).requests, MEMORY)
        return self._scenario.move_ns + self._scenario.move_ns_per_gib * memory // _GIB


def run_scenario(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    registry: Registry | None = None,
    progress: Callable[[int], None] | None = None,
) -> ScenarioOutcome:
    """Play a scenario under a policy and return its figures; the same seed gives the same ones."""
    workload = scenario.workload
    (chosen,) = with_mixes([policy], [workload.specs[n] for n in workload.spec_of[:100_000].tolist()])
    return measure(scenario, policy.name, seed, play_scenario(scenario, chosen, seed, registry, progress))


def play_scenario(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    registry: Registry | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunHistory:
    """Play a scenario; both ways decide the same."""
    workload = scenario.workload
    if scenario.is_plain and can_replay(policy, workload.specs) and len(workload):
        # Those who come at one moment are decided by priority.
        priority = np.array([spec.priority for spec in workload.specs], dtype=np.int64)[workload.spec_of]
        order = np.lexsort((-priority, workload.arrives_ns))
        found = replay(
            workload.hosts,
            policy,
            workload.specs,
            workload.spec_of[order],
            workload.arrives_ns[order],
            workload.runs_ns[order],
            [workload.names[guest] for guest in order.tolist()] if np.any(np.diff(order) != 1) else workload.names,
            seed=seed,
            registry=registry,
            progress=progress or (lambda _: None),
        )
        if found is not None:
            back = np.argsort(order)
            placed = ReplayResult(found.rows[back], found.devices[back], found.taken[back])
            return _history(workload, placed)
    return simulate(scenario, policy, seed, registry, progress)


def _history(workload: Workload, placed: ReplayResult) -> RunHistory:
    """Return what happened as columns: ends before starts at one moment, as they were decided."""
    guests = np.flatnonzero(placed.rows >= 0)
    ends = guests[workload.runs_ns[guests] != FOREVER]
    at = np.concatenate((workload.arrives_ns[guests], workload.arrives_ns[ends] + workload.runs_ns[ends]))
    sign = np.concatenate((np.ones(len(guests), dtype=np.int64), -np.ones(len(ends), dtype=np.int64)))
    guest = np.concatenate((guests, ends))
    order = np.lexsort((guest, sign, at))
    guest = guest[order]
    status = np.where(placed.rows < 0, DROPPED, np.where(workload.runs_ns == FOREVER, RUNNING, FINISHED))
    nobody = np.zeros(0, dtype=np.int64)
    return RunHistory(
        at_ns=at[order],
        guest=guest,
        row=placed.rows[guest],
        sign=sign[order],
        devices=placed.devices[guest],
        counts=placed.taken[guest],
        status=status,
        waited_ns=np.zeros(len(workload), dtype=np.int64),
        starts=(placed.rows >= 0).astype(np.int64),
        queue_at_ns=nobody,
        queue_by=nobody,
        begins_ns=int(workload.arrives_ns[0]),
        ends_ns=max(int(at.max(initial=0)), int(workload.arrives_ns[-1]), 1),
        counted=Counter(),
    )
