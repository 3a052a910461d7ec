"""A scenario played on the real engine, in virtual time.

Path of one guest: it arrives as a fact; a step binds it; its end is put into the agenda; the end is a fact. Evicted,
failed and moved guests are submitted again under a new uid, with what is left of their work. Everything that happens at
one moment is told to the engine before it decides: ends first, then hosts, then arrivals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush

import msgspec

from hostler.config import tenancy_facts
from hostler.engine import Engine, Registry
from hostler.errors import InternalError
from hostler.model import (
    MEMORY,
    Action,
    Answered,
    Ask,
    Bind,
    Event,
    Evict,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    Hold,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    Nominate,
    Policy,
    QueueRules,
    amount_of,
)
from hostler.sim.scenarios.history import DROPPED, FINISHED, GAVE_UP, RUNNING, WAITING, Diary, History
from hostler.sim.scenarios.scenario import Outage, Scenario
from hostler.sim.workload import FOREVER

__all__ = ["simulate"]

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
) -> History:
    """Play a scenario to its end."""
    return _Simulation(scenario, policy, seed, registry, progress or (lambda _: None)).run()


class _Simulation:
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
        self._diary = Diary()
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

    def run(self) -> History:
        """Play everything."""
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
        return self._diary.finished(self._status, self._waited, self._starts, min(first, ends), ends)

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
        for fact in tenancy_facts(scenario.tenancy):
            self._tell(fact)
        self._engine.apply_many(HostsJoined(hosts=self._workload.hosts))
        for gang in self._workload.gangs:
            self._tell(GangChanged(gang=gang))
        for at, guest in enumerate(scenario.running):
            self._tell(GuestArrived(guest=guest))
            devices = self._engine.decision(guest.uid).devices
            self._diary.note(0, len(self._workload) + at, self._row_of[guest.host], 1, devices)
        for at, outage in enumerate(scenario.outages):
            self._plan(outage.at_ns, _OUTAGE, at)

    def _happen(self, now: int) -> bool:
        """Tell the engine everything that happens at a moment; say whether anything did."""
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
        self._diary.note_queue(now, 1)
        if self._scenario.fixed_end and self._runs[guest] != FOREVER:
            self._plan(self._arrives[guest] + self._runs[guest], _GIVE_UP, guest, attempt)
        elif self._scenario.give_up_ns:
            self._plan(now + self._scenario.give_up_ns, _GIVE_UP, guest, attempt)
        self._tell(
            GuestArrived(at=now, guest=Guest(name=name, uid=uid, spec=workload.specs[self._spec_of[guest]], gang=gang))
        )

    def _settle(self, now: int) -> bool:
        """Let the engine decide until it has nothing more to say at this moment; say whether anybody moved."""
        moved = False
        steps = 0
        while steps < _MOST_STEPS:
            steps += not self._engine.is_searching  # a search ends by itself
            actions = self._engine.step(now)
            moved |= self._carry_out(actions, now)
            due = self._engine.next_due()
            if due is None or due > now:
                return moved
        raise InternalError(f"the engine does not come to rest at {now} ns of scenario {self._scenario.name!r}")

    def _carry_out(self, actions: list[Action], now: int) -> bool:
        moved = False
        waits = {action.uid for action in actions if isinstance(action, Nominate) and action.host}
        for action in actions:
            if isinstance(action, Bind):
                moved = True
                self._start(self._guest_of[action.uid], action, now)
            elif isinstance(action, Evict):
                moved = True
                self._evict(action.uid, now)
            elif isinstance(action, Ask):
                self._tell(Answered(at=now, uid=action.uid, ask=action.ask, error="nobody can be asked here"))
            elif isinstance(action, Hold) and self._scenario.drops and action.uid not in waits:
                guest = self._guest_of.get(action.uid)
                if guest is not None and action.uid not in self._engine.view.nominations:
                    self._drop(guest, now, DROPPED)
        return moved

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
        self._diary.note(now, guest, row, 1, action.devices)
        self._diary.note_queue(now, -1)
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
        self._diary.note(now, guest, row, -1, devices)
        self._forget(guest, now)

    def _forget(self, guest: int, now: int) -> None:
        uid = self._uid_of.pop(guest)
        del self._guest_of[uid]
        self._attempt[guest] += 1
        self._tell(GuestLeft(at=now, uid=uid))

    def _drop(self, guest: int, now: int, status: int) -> None:
        self._waited[guest] += now - self._since[guest]
        self._diary.note_queue(now, -1)
        self._forget(guest, now)
        self._status[guest] = status

    def _evict(self, uid: str, now: int) -> None:
        guest = self._guest_of.get(uid)
        if guest is None:  # one that ran from the start goes for good
            self._tell(GuestLeft(at=now, uid=uid))
            return
        self._diary.counted["evictions"] += 1
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
        self._diary.counted[why] += 1
        self._diary.counted["lost_work_ns"] += done - kept
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
            self._diary.counted["host_failures"] += 1
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
