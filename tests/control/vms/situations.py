"""VMs in every situation that they can be in, each reached by the transitions that lead there."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble, VmReport
from hostler.control.vms import placing, reports, wishes
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
    return wishes.create("vm", "p", "name", spec).vm


def bound(vm: Vm, home: Booking = HOME) -> Vm:
    claim = vm.run if vm.run is not None and not vm.run.is_bound else vm.grow or vm.move
    return placing.bound(vm, claim.uid, claim.version, home, ()).vm


def told(vm: Vm, state: str, *, host: Booking = HOME, lag: int = 0, **more) -> Vm:
    """Return a VM after a report, by default that its newest order for that host is fulfilled."""
    booking = vm.home if vm.home is not None and vm.home.host == host.host else vm.other
    report = VmReport(vm="vm", state=state, generation=booking.generation - lag, restarts=vm.restarts, **more)
    return reports.reported(vm, host.host, report).vm


def running(spec: VmSpec = DISKLESS) -> Vm:
    return told(bound(made(spec)), "running")


def stopped(spec: VmSpec = LOCAL) -> Vm:
    return told(wishes.stop(running(spec)).vm, "stopped")


def evicted(spec: VmSpec = LOCAL) -> Vm:
    return placing.evicted(running(spec), "vm", "it must").vm


def preparing(spec: VmSpec = DISKLESS) -> Vm:
    return bound(wishes.migrate(running(spec)).vm, OTHER)


def copying(spec: VmSpec = DISKLESS) -> Vm:
    return told(preparing(spec), "landing", host=OTHER, lag=1, landing_address="a", landing_secret="s")


def cleaning(spec: VmSpec = DISKLESS) -> Vm:
    return told(copying(spec), "running", host=OTHER)


def aborting(spec: VmSpec = DISKLESS) -> Vm:
    vm = copying(spec)
    return told(vm, "running", trouble=PERMANENT, failed_generation=vm.home.generation)


def lost(spec: VmSpec = LOCAL) -> Vm:
    return reports.lost(running(spec), "id-0").vm


def deleted(vm: Vm) -> Vm:
    return wishes.delete(vm).vm


RESERVED = msgspec.structs.replace(LOCAL, reserve=True)
RESTARTING = msgspec.structs.replace(DISKLESS, when_lost="restart")

SITUATIONS: dict[str, Vm] = {
    "new": made(),
    "held": placing.held(made(), "vm", "no room").vm,
    "bound": bound(made()),
    "being created": told(bound(made()), "creating", lag=2),
    "being started": told(bound(made()), "starting", lag=2),
    "blocked": told(bound(made()), "stopped", lag=2, trouble=BLOCKED, failed_generation=2),
    "failed": told(bound(made()), "absent", lag=2, trouble=PERMANENT, failed_generation=2),
    "running": running(),
    "running with a disk": running(LOCAL),
    "running on shared disks": running(SHARED),
    "turned itself off": told(running(), "stopped", lag=1),
    "to be restarted": wishes.restart(running()).vm,
    "shrinking": wishes.resize(running(), SMALLER).vm,
    "growing": wishes.resize(running(), LARGER).vm,
    "grown": bound(wishes.resize(running(), LARGER).vm),
    "to be paused": wishes.pause(running()).vm,
    "paused": told(wishes.pause(running()).vm, "paused"),
    "to be resumed": wishes.resume(told(wishes.pause(running()).vm, "paused")).vm,
    "to be stopped": wishes.stop(running(LOCAL)).vm,
    "being stopped": told(wishes.stop(running(LOCAL)).vm, "stopping", lag=1),
    "stopped": stopped(),
    "stopped, reserved": stopped(RESERVED),
    "stopped without a disk": stopped(DISKLESS),
    "stopped before it was placed": wishes.stop(made()).vm,
    "waits for room at home": wishes.start(stopped()).vm,
    "starts again": bound(wishes.start(stopped()).vm),
    "runs again": told(bound(wishes.start(stopped()).vm), "running"),
    "evicted": evicted(),
    "evicted without a disk": evicted(DISKLESS),
    "evicted on shared disks": evicted(SHARED),
    "evicted, at rest": told(evicted(), "stopped"),
    "evicted, elsewhere": reports.gone(evicted(DISKLESS), "id-0").vm,
    "to be moved": wishes.migrate(running()).vm,
    "to be moved while stopped": wishes.migrate(stopped(SHARED)).vm,
    "moved while stopped": bound(wishes.migrate(stopped(SHARED)).vm, OTHER),
    "preparing": preparing(),
    "copying": copying(),
    "sent": told(copying(), "left"),
    "cleaning": cleaning(),
    "aborting": aborting(),
    "source lost while copying": reports.lost(copying(SHARED), "id-0").vm,
    "source lost while preparing": reports.lost(preparing(), "id-0").vm,
    "moved": reports.gone(cleaning(), "id-0").vm,
    "stays": reports.gone(aborting(), "id-1").vm,
    "unknown": reports.silent(running()).vm,
    "heard again": reports.heard(reports.silent(running()).vm).vm,
    "left its host": wishes.vacate(stopped(DISKLESS)).vm,
    "lost with its disk": lost(),
    "lost, keep": lost(DISKLESS),
    "lost, restart": lost(RESTARTING),
    "deleting": deleted(running(LOCAL)),
    "deleting a stopped one": deleted(stopped()),
    "deleting while it moves": deleted(copying()),
    "deleting, unknown": reports.silent(deleted(running())).vm,
    "deleted before it was placed": deleted(made()),
    "deleted": reports.gone(deleted(running(LOCAL)), "id-0").vm,
    "not placed at once": placing.held(
        wishes.create("vm", "p", "name", DISKLESS, fails_unplaced=True).vm, "vm", "no room"
    ).vm,
}
