"""What must hold of a whole fleet: always, and once everything has settled. Part of ``fleet_model``."""

from __future__ import annotations

from typing import Any

from hostler.agent.drivers.fake import FakeWires
from hostler.control.vms.orders import power_at_home
from hostler.control.vms.spec import Size
from hostler.control.vms.state import Vm, VmChange, state_of
from hostler.engine import Engine
from hostler.engine.state.records import PLACED_STATES
from hostler.model import CPU, MEMORY, BindFailed, GuestArrived, GuestChanged, GuestLeft, amount_of
from hostler.model.resources import STORAGE


class Checks:
    engine: Engine
    vms: dict[str, Vm]
    hosts: dict[str, Any]
    wires: FakeWires

    def running_on(self, identity: str) -> list[str]:
        sites = [(host.name, host.stepped.driver.vms.get(identity)) for host in self.hosts.values()]
        return [name for name, here in sites if here is not None and here.power in ("running", "paused")]

    def check(self) -> None:
        for vm in self.vms.values():
            assert vm.observed_generation <= vm.generation
            assert vm.home is None or vm.home.generation <= vm.generation
            assert vm.other is None or vm.other.generation <= vm.generation
            assert (vm.move is None) == (vm.moving is None) or self._has_come_cold(vm), vm
            assert vm.grow is None or not vm.grow.is_bound
            assert vm.home is not None or vm.disk is None
            assert not vm.is_gone or (vm.home, vm.other, vm.run, vm.disk, vm.grow, vm.move) == (None,) * 6, vm
            assert len(self.running_on(vm.id)) <= 1, f"{vm.id} runs on {self.running_on(vm.id)}"
            state_of(vm)
            self.check_disks(vm)
        for host in self.hosts.values():
            assert not host.stepped.is_overcommitted(), host.name
            alive = [
                vm.order for vm in host.stepped.driver.vms.values() if vm.power in ("running", "paused", "landing")
            ]
            assert sum(order.memory_bytes for order in alive) <= host.size.memory_bytes
            assert sum(order.cpu_millis for order in alive) <= host.size.cpu_millis
        self.check_bookings()

    def _has_come_cold(self, vm: Vm) -> bool:
        """Say whether a VM was moved while it was stopped, and its source, which holds nothing for it, cleans up."""
        return vm.moving is not None and vm.moving.phase == "cleaning" and vm.power in ("stopped", "absent")

    def check_disks(self, vm: Vm) -> None:
        """What lies on shared storage was made once, and is there as long as the VM is to be."""
        assert self.wires.made.get(vm.id, 0) <= 1, f"the disks of {vm.id} were lost and created again"
        if vm.power != "absent":
            assert (vm.id in self.wires.disks) == (vm.id in self.wires.made), f"the disks of {vm.id} are gone"

    def engine_holds(self) -> dict[str, Size]:
        """Return what the engine keeps for the guests of each host."""
        found: dict[str, Size] = {}
        for record in self.engine.view.records.values():
            if record.state in PLACED_STATES:
                asked = record.guest.spec.requests
                size = Size(
                    cpu_millis=amount_of(asked, CPU),
                    memory_bytes=amount_of(asked, MEMORY),
                    disk_bytes=amount_of(asked, STORAGE),
                )
                found[record.host] = _sum(found.get(record.host, Size()), size)
        return found

    def books_hold(self) -> dict[str, Size]:
        found: dict[str, Size] = {}
        for vm in self.vms.values():
            if vm.home is not None:
                found[vm.home.name] = _sum(found.get(vm.home.name, Size()), vm.booked)
            if vm.other is not None and vm.move is not None:
                found[vm.other.name] = _sum(found.get(vm.other.name, Size()), vm.move.size)
        return {name: size for name, size in found.items() if size != Size()}

    def check_bookings(self) -> None:
        holds = self.engine_holds()
        for name, size in self.books_hold().items():
            assert size.beyond(holds.get(name, Size())) == Size(), (name, size, holds.get(name))

    def check_rest(self) -> None:
        """After everything happened, every VM is as wanted or waits with a reason, and nothing is left of the dead."""
        self.check()
        assert self.engine_holds() == self.books_hold()
        wanted = [uid for vm in self.vms.values() for uid in claims_of(vm)]
        assert sorted(self.engine.guests()) == sorted(wanted), "the engine knows who is wanted, and nobody else"
        for vm in self.vms.values():
            self._check_vm_at_rest(vm)

    def _check_vm_at_rest(self, vm: Vm) -> None:
        powers = {host.name: host.stepped.power(vm.id) for host in self.hosts.values() if not host.is_dead}
        here = {name: power for name, power in powers.items() if power != "absent"}
        assert vm.moving is None, (vm, here)
        assert not vm.is_evicted, vm
        if vm.power == "absent":
            assert vm.is_gone or self._waits_for_the_dead(vm), vm
            assert not here, (vm.id, here)
            return
        if vm.home is None:
            keeps = bool(vm.spec.disks) and vm.spec.is_movable  # the log must keep its disks on shared storage
            assert not here or (keeps and set(here.values()) == {"stopped"}), (vm, here)
            assert state_of(vm) in ("pending", "stopped", "lost")
            assert state_of(vm) != "pending" or vm.why, vm
            return
        wanted = power_at_home(vm)
        if wanted == "stopped":  # what remains of a VM that was sent to a host which died
            here = {name: power.replace("left", "stopped") for name, power in here.items()}
        assert here == {vm.home.name: wanted}, (vm, here)
        if wanted != vm.power or vm.grow is not None:
            assert vm.why, vm
            assert vm.observed_generation < vm.generation
        else:
            assert vm.observed_generation == vm.generation, vm
            assert state_of(vm) == vm.power
            if vm.spec.reserve and wanted == "stopped":
                assert vm.booked.beyond(vm.wanted) == Size()
            elif wanted != "stopped":
                assert (vm.booked.cpu_millis, vm.booked.memory_bytes) == (vm.wanted.cpu_millis, vm.wanted.memory_bytes)
            else:
                assert vm.booked == vm.wanted.disk_only
        assert vm.booked.disk_bytes == vm.wanted.disk_bytes

    def _waits_for_the_dead(self, vm: Vm) -> bool:
        return vm.home is not None and self.hosts[vm.home.host].is_dead


def check_told(old: Vm | None, change: VmChange) -> None:
    """The engine hears of every claim that comes and of every one that goes, once, and of no other."""
    before, after = (claims_of(old) if old is not None else set()), claims_of(change.vm)
    arrived = [fact.guest.uid for fact in change.facts if isinstance(fact, GuestArrived)]
    left = [fact.uid for fact in change.facts if isinstance(fact, GuestLeft)]
    passing = set(arrived) & set(left)
    assert sorted({*arrived} - passing) == sorted(after - before)
    assert sorted({*left} - passing) == sorted(before - after)
    assert len(arrived) == len(set(arrived))
    assert len(left) == len(set(left))


def claims_of(vm: Vm) -> set[str]:
    return {claim.uid for claim in (vm.run, vm.disk, vm.grow, vm.move) if claim is not None}


def what_happened(old: Vm, change: VmChange) -> set[str]:
    new = change.vm
    facts = {type(fact) for fact in change.facts}
    happened = {
        "arrived": old.moving is not None and old.run is not None and new.run == old.move,
        "moved while stopped": new.power == "stopped" and "moved to" in " ".join(change.notes),
        "given up": "given up" in " ".join(change.notes),
        "evicted": new.is_evicted and not old.is_evicted,
        "grown": old.grow is not None and new.grow is None and old.run != new.run,
        "shrunk": facts == {GuestChanged} and new.booked != old.booked,
        "at rest": new.disk is not None and old.disk is None,
        "lost": new.is_lost and not old.is_lost,
        "restarted elsewhere": "starts elsewhere" in " ".join(change.notes),
        "gone": new.is_gone and not old.is_gone,
        "not placed": "not placed" in change.failed,
        "bind failed": BindFailed in facts,
        "unknown": new.is_unknown,
    }
    return {name for name, has_happened in happened.items() if has_happened}


def _sum(one: Size, two: Size) -> Size:
    return Size(
        cpu_millis=one.cpu_millis + two.cpu_millis,
        memory_bytes=one.memory_bytes + two.memory_bytes,
        disk_bytes=one.disk_bytes + two.disk_bytes,
    )
