"""VMs in every situation that they can be in, each reached by the transitions that lead there."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble, VmReport
from hostler.control.vms import desired_state, placement, reports
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.control.vms.state import Booking, Vm

DISKLESS = VmSpec(cpu="2", memory="1Gi")
LOCAL = VmSpec(cpu="2", memory="1Gi", disks=[DiskSpec(size="5Gi")])
SHARED = VmSpec(cpu="2", memory="1Gi", disks=[DiskSpec(size="5Gi", storage="nfs")])
LARGER = VmSpec(cpu="3", memory="1Gi")
SMALLER = VmSpec(cpu="1", memory="1Gi")
HOME, OTHER = Booking(host="id-0", name="h0"), Booking(host="id-1", name="h1")
PERMANENT = Trouble(kind="permanent", code="driver_refused", message="it cannot be", hint="order another")
BLOCKED = Trouble(kind="blocked", code="no_room", message="it does not fit", hint="wait")


def larger(spec: VmSpec) -> VmSpec:
    return msgspec.structs.replace(spec, cpu="3")


def made(spec: VmSpec = DISKLESS) -> Vm:
    return desired_state.create("vm", "p", "name", spec).vm


def bound(vm: Vm, home: Booking = HOME) -> Vm:
    claim = vm.run if vm.run is not None and not vm.run.is_bound else vm.grow or vm.move
    return placement.book_placement(vm, claim.uid, claim.version, home, ()).vm


def told(vm: Vm, state: str, *, host: Booking = HOME, lag: int = 0, **more) -> Vm:
    """Return a VM after a report, by default that its newest order for that host is fulfilled."""
    booking = vm.home if vm.home is not None and vm.home.host == host.host else vm.other
    report = VmReport(vm="vm", state=state, generation=booking.generation - lag, restarts=vm.restarts, **more)
    return reports.apply_report(vm, host.host, report).vm


def running(spec: VmSpec = DISKLESS) -> Vm:
    return told(bound(made(spec)), "running")


def stopped(spec: VmSpec = LOCAL) -> Vm:
    return told(desired_state.stop(running(spec)).vm, "stopped")


def evicted(spec: VmSpec = LOCAL) -> Vm:
    return placement.evict_vm(running(spec), "vm", "it must").vm


def preparing(spec: VmSpec = DISKLESS) -> Vm:
    return bound(desired_state.migrate(running(spec)).vm, OTHER)


def copying(spec: VmSpec = DISKLESS) -> Vm:
    return told(preparing(spec), "landing", host=OTHER, lag=1, landing_address="a", landing_secret="s")


def cleaning(spec: VmSpec = DISKLESS) -> Vm:
    return told(copying(spec), "running", host=OTHER)


def aborting(spec: VmSpec = DISKLESS) -> Vm:
    vm = copying(spec)
    return told(vm, "running", trouble=PERMANENT, failed_generation=vm.home.generation)


def lost(spec: VmSpec = LOCAL) -> Vm:
    return reports.lose_host(running(spec), "id-0").vm


def deleted(vm: Vm) -> Vm:
    return desired_state.delete(vm).vm


RESERVED = msgspec.structs.replace(LOCAL, reserve=True)
RESTARTING = msgspec.structs.replace(DISKLESS, when_lost="restart")

SITUATIONS: dict[str, Vm] = {
    "new": made(),
    "held": placement.note_wait(made(), "vm", "no room").vm,
    "bound": bound(made()),
    "being created": told(bound(made()), "creating", lag=2),
    "being started": told(bound(made()), "starting", lag=2),
    "blocked": told(bound(made()), "stopped", lag=2, trouble=BLOCKED, failed_generation=2),
    "failed": told(bound(made()), "absent", lag=2, trouble=PERMANENT, failed_generation=2),
    "running": running(),
    "running with a disk": running(LOCAL),
    "running on shared disks": running(SHARED),
    "turned itself off": told(running(), "stopped", lag=1),
    "to be restarted": desired_state.restart(running()).vm,
    "shrinking": desired_state.resize(running(), SMALLER).vm,
    "growing": desired_state.resize(running(), LARGER).vm,
    "grown": bound(desired_state.resize(running(), LARGER).vm),
    "to be paused": desired_state.pause(running()).vm,
    "paused": told(desired_state.pause(running()).vm, "paused"),
    "to be resumed": desired_state.resume(told(desired_state.pause(running()).vm, "paused")).vm,
    "to be stopped": desired_state.stop(running(LOCAL)).vm,
    "being stopped": told(desired_state.stop(running(LOCAL)).vm, "stopping", lag=1),
    "stopped": stopped(),
    "stopped, reserved": stopped(RESERVED),
    "stopped without a disk": stopped(DISKLESS),
    "stopped before it was placed": desired_state.stop(made()).vm,
    "waits for room at home": desired_state.start(stopped()).vm,
    "starts again": bound(desired_state.start(stopped()).vm),
    "runs again": told(bound(desired_state.start(stopped()).vm), "running"),
    "evicted": evicted(),
    "evicted without a disk": evicted(DISKLESS),
    "evicted on shared disks": evicted(SHARED),
    "evicted, at rest": told(evicted(), "stopped"),
    "evicted, elsewhere": reports.apply_absence(evicted(DISKLESS), "id-0").vm,
    "to be moved": desired_state.migrate(running()).vm,
    "to be moved while stopped": desired_state.migrate(stopped(SHARED)).vm,
    "moved while stopped": bound(desired_state.migrate(stopped(SHARED)).vm, OTHER),
    "preparing": preparing(),
    "copying": copying(),
    "sent": told(copying(), "left"),
    "cleaning": cleaning(),
    "aborting": aborting(),
    "source lost while copying": reports.lose_host(copying(SHARED), "id-0").vm,
    "source lost while preparing": reports.lose_host(preparing(), "id-0").vm,
    "moved": reports.apply_absence(cleaning(), "id-0").vm,
    "stays": reports.apply_absence(aborting(), "id-1").vm,
    "unknown": reports.mark_unknown(running()).vm,
    "heard again": reports.mark_heard(reports.mark_unknown(running()).vm).vm,
    "left its host": desired_state.vacate(stopped(DISKLESS)).vm,
    "lost with its disk": lost(),
    "lost, keep": lost(DISKLESS),
    "lost, restart": lost(RESTARTING),
    "deleting": deleted(running(LOCAL)),
    "deleting a stopped one": deleted(stopped()),
    "deleting while it moves": deleted(copying()),
    "deleting, unknown": reports.mark_unknown(deleted(running())).vm,
    "deleted before it was placed": deleted(made()),
    "deleted": reports.apply_absence(deleted(running(LOCAL)), "id-0").vm,
    "not placed at once": placement.note_wait(
        desired_state.create("vm", "p", "name", DISKLESS, fails_unplaced=True).vm, "vm", "no room"
    ).vm,
}
