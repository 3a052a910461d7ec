"""A whole fleet in a test, without I/O: the VM state machine, a real engine, and hosts with the agents' real core.

Facts go to the engine in the order of their transactions. Decisions are carried out some time after they were made.
Orders and reports wait in flight until a test delivers them, repeats them, delays them or drops them. Every change is
checked.
"""

from __future__ import annotations

import msgspec

from hostler.agent.core.decisions import after_registration
from hostler.agent.core.reports import ReportContent, difference, gone, unknown
from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.messages import HostSize, Order, Orders, Report
from hostler.control.vms import desired_state, placement, reports, victims
from hostler.control.vms.guests import CAN_MIGRATE, HAS_STORAGE, YES, vm_of_uid
from hostler.control.vms.orders import order_for, order_for_remains
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.start_times import with_start_time
from hostler.control.vms.state import Booking, Vm, VmChange
from hostler.engine import BUILT_IN, Engine
from hostler.model import (
    CPU,
    MEMORY,
    Action,
    Bind,
    BindFailed,
    Defer,
    Evict,
    GuestArrived,
    Host,
    HostChanged,
    HostJoined,
    Move,
    PreemptionRules,
    labels,
)
from hostler.model.resources import STORAGE, amounts
from tests.agent.stepped_host import SECOND, SteppedHost
from tests.control.vms.checks import Checks, check_told, what_happened

GIB = 2**30
POLICIES = tuple(
    msgspec.structs.replace(BUILT_IN[name], preemption=PreemptionRules(movable_first=True, moves=True))
    for name in ("least_loaded", "best_fit", "round_robin", "random", "spread", "pack", "first_fit")
)
SMALL = HostSize(cpu_millis=4000, memory_bytes=4 * GIB, disk_bytes=40 * GIB)


class ModelHost:
    """A host: its agent, and what is on its way between that and the control plane."""

    def __init__(self, identity: str, name: str, size: HostSize, wires: FakeWires) -> None:
        self.id, self.name, self.size, self.wires = identity, name, size, wires
        self.version = 1  # of the fact about it
        self.is_dead = self.is_silent = False
        self.epoch = self.sequence = self.taken = 0
        self.orders_version = 0
        self.orders_in_flight: list[Orders] = []
        self.reports_in_flight: list[Report] = []
        self.told = ReportContent()
        self.install()

    def install(self) -> None:
        self.stepped = SteppedHost(FakeDriver(self.name, size=self.size, wires=self.wires))
        self.stepped.look()

    def telling(self) -> ReportContent:
        state = self.stepped.state
        return ReportContent(
            version=state.version, vms=self.stepped.reports(), gone=gone(state), unknown=unknown(state)
        )


class FleetModel(Checks):
    def __init__(self, sizes: list[HostSize], policies=POLICIES) -> None:
        self.now = 1
        self.engine = Engine(policies)
        self.wires = FakeWires()
        self.vms: dict[str, Vm] = {}
        self.hosts: dict[str, ModelHost] = {}
        self.decided: list[tuple[Action, int, bool]] = []
        self.uids: set[str] = set()
        self.notes: list[str] = []
        self.met: set[str] = set()  # what happened at all
        for number, size in enumerate(sizes):
            self.join(f"h{number}", size)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def join(self, name: str, size: HostSize = SMALL) -> ModelHost:
        host = ModelHost(f"id-{name}", name, size, self.wires)
        self.hosts[host.id] = host
        self.engine.apply(HostJoined(host=self._host(host)))
        self.register(host)
        return host

    def _host(self, host: ModelHost) -> Host:
        size = host.size
        return Host(
            name=host.name,
            uid=host.id,
            version=host.version,
            capacity=amounts({CPU: size.cpu_millis, MEMORY: size.memory_bytes, STORAGE: size.disk_bytes}),
            labels=labels({CAN_MIGRATE: YES, f"{HAS_STORAGE}shared": YES, "kubernetes.io/hostname": host.name}),
            cordoned=host.is_dead or host.is_silent,
        )

    def _changed(self, host: ModelHost) -> None:
        host.version += 1
        self.engine.apply(HostChanged(host=self._host(host)))

    def silence(self, host: ModelHost) -> None:
        """Nobody hears from a host; its agent works on."""
        if not host.is_dead and not host.is_silent:
            host.is_silent = True
            self._changed(host)
            for vm in self._at(host):
                self.become(reports.mark_unknown(vm))

    def hear(self, host: ModelHost) -> None:
        if host.is_silent and not host.is_dead:
            host.is_silent = False
            self._changed(host)
            for vm in self._at(host):
                self.become(reports.mark_heard(vm))
            self.register(host)

    def prove_dead(self, host: ModelHost) -> None:
        """A host loses power for good, and an operator confirms it."""
        self.cut_power(host)
        if not host.is_dead:
            host.is_dead = True
            self._changed(host)
        for vm in list(self.vms.values()):
            self.become(reports.lose_host(vm, host.id))

    def cut_power(self, host: ModelHost) -> None:
        host.is_silent = True
        host.stepped.driver.vms.clear()
        host.stepped.lanes.clear()
        host.reports_in_flight.clear()
        self.wires.hosts.pop(host.name, None)

    def return_empty(self, host: ModelHost) -> None:
        """A host that was proved dead comes back with new disks."""
        assert host.is_dead
        host.is_dead = host.is_silent = False
        host.install()
        self._changed(host)
        self.register(host)

    def lose_everything(self, host: ModelHost) -> None:
        """A host comes back with new disks before anybody vouches for its death."""
        assert not host.is_dead
        self.cut_power(host)
        host.is_silent = False
        host.install()
        self._changed(host)
        self.register(host)

    def _at(self, host: ModelHost) -> list[Vm]:
        return [vm for vm in self.vms.values() if vm.home is not None and vm.home.host == host.id]

    # -- the control plane -----------------------------------------------------------------------------------------

    def create(self, identity: str, spec: VmSpec, **more) -> Vm:
        change = desired_state.create(identity, "p", f"name-{identity}", spec, **more)
        self.vms[identity] = change.vm
        self._apply(change)
        return change.vm

    def wish(self, identity: str, wish, *arguments, **more) -> VmChange:
        change = wish(self.vms[identity], *arguments, **more)
        self.become(change)
        return change

    def become(self, change: VmChange) -> None:
        old = self.vms[change.vm.id]
        change = with_start_time(old, change, self.now)
        new = change.vm
        assert new.generation >= old.generation, "a generation never decreases"
        assert new.observed_generation >= old.observed_generation
        assert new.number >= old.number
        assert not old.is_gone or new == old, "the dead stay dead"
        check_told(old, change)
        self.vms[new.id] = new
        self.notes += change.notes
        self.met |= what_happened(old, change)
        self._apply(change)

    def _apply(self, change: VmChange) -> None:
        """Tell the engine; what it holds is never less than what is booked, between any two facts either."""
        vm = change.vm
        assert msgspec.json.decode(msgspec.json.encode(vm), type=Vm) == vm
        for fact in change.facts:
            if isinstance(fact, GuestArrived):
                assert fact.guest.uid not in self.uids, "a uid is used twice"
                self.uids.add(fact.guest.uid)
            fact = msgspec.json.decode(msgspec.json.encode(fact), type=type(fact))
            self.engine.apply(fact)
            self.check_bookings()
        self.check()

    def step(self) -> None:
        """Let the engine decide; nothing is carried out yet. Its time is never the one of the last step."""
        self.now += 11 * SECOND
        for action in self.engine.step(self.now):
            record = self.engine.view.records.get(action.uid)
            is_promised = action.uid in self.engine.view.nominations
            self.decided.append((action, record.guest.version if record is not None else 0, is_promised))

    def carry_out(self) -> None:
        """Book what was decided, as the leader's transaction does."""
        decided, self.decided = self.decided, []
        for action, version, is_promised in decided:
            vm = self.vms[vm_of_uid(action.uid)]
            match action:
                case Bind():
                    host = next(host for host in self.hosts.values() if host.name == action.host)
                    home = Booking(host=host.id, name=host.name)
                    if host.is_dead:  # it died after the step: the caller that carries out decisions must check
                        failed = BindFailed(uid=action.uid, host=action.host, reason="the host is gone")
                        self.become(VmChange(vm=vm, facts=(failed,)))
                        continue
                    self.become(placement.book_placement(vm, action.uid, version, home, action.devices))
                case Defer():
                    self.become(placement.note_wait(vm, action.uid, "no room", is_promised=is_promised))
                case Move():
                    host = next(host for host in self.hosts.values() if host.name == action.target)
                    target = None if host.is_dead else Booking(host=host.id, name=host.name)
                    self.become(victims.move_victim(vm, action.uid, target, action.reason))
                case Evict():
                    self.become(placement.evict_vm(vm, action.uid, action.reason))

    def decide(self) -> None:
        self.carry_out()
        self.step()
        self.carry_out()

    # -- between the control plane and agents ----------------------------------------------------------------------

    def send_orders(self, host: ModelHost) -> None:
        orders = [self._order(vm, host) for vm in self.vms.values()]
        host.orders_version += 1
        known = tuple(order for order in orders if order is not None)
        message = Orders(version=host.orders_version, is_full=True, orders=known, allows_bulk_teardown=True)
        host.orders_in_flight.append(message)

    def _order(self, vm: Vm, host: ModelHost) -> Order | None:
        """Return the order for a VM that is booked at a host, or that the host told of all the same."""
        if any(booking is not None and booking.host == host.id for booking in (vm.home, vm.other)):
            return order_for(vm, host.id)
        told = host.told.vms.get(vm.id)
        return order_for_remains(vm, host.id) if told is not None and told.state != "absent" else None

    def deliver_orders(self, host: ModelHost, at: int = -1) -> None:
        if not host.is_dead and not host.is_silent and host.orders_in_flight:
            host.stepped.take(host.orders_in_flight[at])

    def send_report(self, host: ModelHost, *, is_answer_lost: bool = False) -> None:
        telling = host.telling()
        host.sequence += 1
        report = difference(
            host.told, telling, boot="b", agent=str(host.stepped.agent), epoch=host.epoch, sequence=host.sequence
        )
        host.reports_in_flight.append(report)
        if not is_answer_lost:
            host.told = telling

    def deliver_report(self, host: ModelHost, at: int = 0, *, is_repeated: bool = False) -> None:
        """Let a report through; old ones and those of another registration are refused, as the service does."""
        if host.is_dead or host.is_silent or not host.reports_in_flight:
            return
        report = host.reports_in_flight[at] if is_repeated else host.reports_in_flight.pop(at)
        if report.epoch != host.epoch or report.sequence <= host.taken:
            return
        if report.sequence != host.taken + 1:
            return  # an agent sends the next one when the last one was answered
        host.taken = report.sequence
        for entry in report.vms:
            if entry.vm in self.vms:
                self.become(reports.apply_report(self.vms[entry.vm], host.id, entry))
        for one in report.departed:
            if one.vm in self.vms:
                self.become(reports.apply_absence(self.vms[one.vm], host.id, one.generation))

    def register(self, host: ModelHost) -> None:
        """An agent comes back and tells all that it has."""
        if host.is_dead or host.is_silent:
            return
        host.epoch += 1
        host.sequence = host.taken = 0
        host.reports_in_flight.clear()
        host.orders_in_flight.clear()  # an agent drops what it asked for under an older registration
        host.stepped.look()
        host.told = host.telling()
        host.stepped.state = after_registration(host.stepped.state, host.size)
        for vm in list(self.vms.values()):
            report = host.told.vms.get(vm.id)
            if report is not None:
                self.become(reports.apply_report(vm, host.id, report))
            elif vm.id not in host.told.unknown:
                self.become(reports.apply_missing(vm, host.id))

    def exchange(self, host: ModelHost) -> None:
        """Let everything through at once, both ways."""
        if host.is_dead or host.is_silent:
            return
        while host.reports_in_flight:
            self.deliver_report(host)
        if host.taken != host.sequence:
            self.register(host)
        self.send_orders(host)
        self.deliver_orders(host)
        host.stepped.step()
        self.send_report(host)
        self.deliver_report(host)

    def run(self, rounds: int = 6) -> None:
        """Let everything happen for a while."""
        for _ in range(rounds):
            self.decide()
            for host in self.hosts.values():
                self.exchange(host)
                host.stepped.now += 61 * SECOND

    def come_to_rest(self) -> None:
        for host in self.hosts.values():
            self.hear(host)
            host.stepped.driver.faults.clear()
            for vm, (_, outcome) in list(host.stepped.lanes.items()):
                if outcome is None:
                    host.stepped.do(vm)
                host.stepped.finish(vm)
            if any(setback.trouble.kind == "permanent" for setback in host.stepped.state.setbacks.values()):
                host.stepped.kill()  # a new agent tries again what the old one had given up
            self.register(host)
        calm = 0
        for _ in range(200):
            before = dict(self.vms)
            self.now += 400 * SECOND
            self.run(1)
            calm = calm + 1 if self.vms == before else 0
            if calm == 6:
                return
            if calm == 3:  # an agent tells once that a VM is gone, also when it never saw an order in between
                for host in self.hosts.values():
                    self.register(host)
        raise AssertionError(f"never at rest: {[vm for vm in self.vms.values() if vm != before[vm.id]]}")
