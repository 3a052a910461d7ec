"""VMs that make room for others: they are moved while they run, or stopped if that fails, and never lost."""

from __future__ import annotations

import msgspec

from hostler.agent.drivers.fake import Fault
from hostler.agent.messages import HostSize
from hostler.control.fleet import operator_actions
from hostler.control.store.history import log
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from tests.control.fleet.control_plane import GIB, SETTINGS, ControlPlane, is_running, run_control_plane, spec
from tests.wait import until

FULL = HostSize(cpu_millis=4000, memory_bytes=8 * GIB, disk_bytes=100 * GIB)
HALF = spec(cpu="2")
PINNED = spec(cpu="2", disks=[DiskSpec(size="1Gi")])
HIGH = spec(cpu="2", priority=10, host_name="north")
FOR_HIGH = "to make room for high, a VM of higher priority"


async def crowded(control: ControlPlane) -> tuple[str, str]:
    """Fill host north with a VM that can move and a pinned one, and let host south join; return both."""
    await control.join("north", size=FULL)
    free = await control.create_running(HALF)
    pinned = await control.create_running(PINNED)
    await control.join("south", size=FULL)
    return free, pinned


async def notes(control: ControlPlane, vm: str) -> list[str]:
    entries = await control.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    found = [msgspec.json.decode(one.body) for one in entries if one.kind == "note" and one.subject == vm]
    return [one["text"] for one in found]


async def test_victim_moves_while_it_runs_and_pinned_vm_is_spared(either_url):
    async with run_control_plane(either_url) as control:
        free, pinned = await crowded(control)
        high = await control.create("high", HIGH)
        await control.until_vm(high, is_running)
        moved = await control.until_vm(free, lambda one: is_running(one) and one.moving is None)
        assert (control.runs_on(free), control.runs_on(pinned), control.runs_on(high)) == (
            ["south"], ["north"], ["north"],
        )  # fmt: skip
        assert moved.moved_for == "high, a VM of higher priority"
        assert ("stop", free) not in control.hosts["north"].driver.log
        told = await notes(control, free)
        assert f"moves to south {FOR_HIGH}" in told
        assert f"moved to south {FOR_HIGH}" in told
        await control.check_agreement()


async def test_victim_is_stopped_if_the_service_moves_none(url):
    settings = msgspec.structs.replace(SETTINGS, move_victims=False)
    async with run_control_plane(url, settings=settings) as control:
        free, pinned = await crowded(control)
        high = await control.create("high", HIGH)
        await control.until_vm(high, is_running)
        assert control.runs_on(pinned) == ["north"], "who can run elsewhere is stopped first"
        await control.until_vm(free, is_running)
        assert control.runs_on(free) == ["south"], "it started there again"
        assert f"stopped {FOR_HIGH}" in await notes(control, free)


async def test_victim_whose_move_fails_is_stopped_and_starts_elsewhere(url):
    async with run_control_plane(url) as control:
        free, pinned = await crowded(control)
        control.hosts["south"].driver.faults.append(Fault(kind="permanent", verb="await_landing", times=1))
        high = await control.create("high", HIGH)
        await control.until_vm(high, is_running)
        await control.until_vm(free, is_running)
        assert (control.runs_on(free), control.runs_on(pinned)) == (["south"], ["north"])
        told = await notes(control, free)
        assert any(text.startswith("the move is given up") for text in told)
        assert f"stopped {FOR_HIGH}" in told
        await control.check_agreement()


async def test_canceled_move_of_a_victim_stops_it(url):
    async with run_control_plane(url) as control:
        free, _ = await crowded(control)
        control.hosts["north"].driver.faults.append(Fault(kind="blocked", verb="send"))
        high = await control.create("high", HIGH)
        await control.until_vm(free, lambda one: one.trouble is not None)
        await control.wish(free, desired_state.cancel_move)
        await control.until_vm(high, is_running)
        assert f"stopped {FOR_HIGH}" in await notes(control, free)


async def test_move_of_a_victim_goes_on_after_a_restart(url):
    async with run_control_plane(url) as control:
        free, pinned = await crowded(control)
        control.hosts["north"].driver.faults.append(Fault(kind="blocked", verb="send"))
        high = await control.create("high", HIGH)
        await control.until_vm(free, lambda one: one.trouble is not None)
        await control.restart(control.settings)
        assert (await control.vm(free)).moving.makes_room
        control.hosts["north"].driver.faults.clear()
        await control.until_vm(high, is_running)
        await control.until_vm(free, lambda one: is_running(one) and one.moving is None)
        assert (control.runs_on(free), control.runs_on(pinned)) == (["south"], ["north"])
        assert not any(text.startswith("stopped") for text in await notes(control, free))
        await control.check_agreement()


async def test_two_victims_of_one_host_go_where_each_has_room(url):
    async with run_control_plane(url) as control:
        await control.join("north", size=FULL)
        low = [await control.create_running(HALF) for _ in range(2)]
        half = msgspec.structs.replace(FULL, cpu_millis=2000)
        await control.join("south", size=half)
        await control.join("west", size=half)
        high = await control.create("high", spec(cpu="4", priority=10, host_name="north"))
        await control.until_vm(high, is_running)
        for vm in low:
            await control.until_vm(vm, lambda one: is_running(one) and one.moving is None)
        assert sorted(control.runs_on(vm)[0] for vm in low) == ["south", "west"]
        await until(lambda: all("stop" not in verb for host in control.hosts.values() for verb, _ in host.driver.log))


async def test_victim_stops_if_its_destination_dies(url):
    async with run_control_plane(url) as control:
        free, _ = await crowded(control)
        control.hosts["south"].driver.faults.append(Fault(kind="blocked", verb="await_landing"))
        high = await control.create("high", HIGH)
        await control.until_vm(free, lambda one: one.moving is not None and one.moving.phase == "preparing")
        south = control.hosts["south"]
        await control.pass_silently(south)
        await south.stop()
        await control.operate(operator_actions.confirm_dead, south, confirm="south")
        await control.until_vm(high, is_running)
        assert f"stopped {FOR_HIGH}" in await notes(control, free)
