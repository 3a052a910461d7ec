"""Silence and proof: a silent host makes its VMs unknown, and only proof lets them start elsewhere."""

from __future__ import annotations

import asyncio
import signal
import stat
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest

from hostler.agent.messages import REPORT_PATH, Report
from hostler.agent.startup import AgentFolder
from hostler.control.fleet import operator_actions
from hostler.control.fleet.errors import ConfirmationError, HostAliveError
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from tests.agent.guard import watchdog_process
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, run_control_plane, spec
from tests.wait import until

RESTART = spec(when_lost="restart")


def unknown(vm: Vm) -> bool:
    return state_of(vm) == "unknown"


async def two_hosts_and(control: ControlPlane, wanted, **more) -> tuple[str, str]:
    """Return a VM that runs on north, which has a neighbour."""
    await control.join("north", **more)
    vm = await control.create_running(wanted)
    await control.join("south", **more)
    return vm, control.hosts["north"].id


async def test_silent_host_only_makes_its_vms_unknown(either_url):
    async with run_control_plane(either_url) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        before = await control.vm(vm)
        north = control.hosts["north"]
        await control.pass_silently(north)
        assert (await control.row("north")).state == "silent"
        assert (await control.row("south")).state == "ready"
        now = await control.vm(vm)
        assert unknown(now)
        assert now == msgspec.structs.replace(before, is_unknown=True)
        await control.pass_silently(north, seconds=60.0)
        assert await control.vm(vm) == now
        assert control.runs_on(vm) == ["north"]
        north.wire.is_cut = False
        await control.until_host("north", "ready")
        assert await control.until_vm(vm, is_running) == before
        await control.check_agreement()


async def test_a_silent_host_gets_no_new_vms(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await control.pass_silently(north)
        vm = await control.create()
        assert (await control.until_vm(vm, lambda one: bool(one.why))).home is None
        north.wire.is_cut = False
        await control.until_vm(vm, is_running)


async def test_nobody_is_judged_before_a_new_leader_had_time_to_hear(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        north.wire.is_cut = True
        control.clock.jump(1000.0)
        await control.duties()  # its first look
        assert (await control.row("north")).state == "ready"
        await control.pass_silently(north)
        assert (await control.row("north")).state == "silent"


async def test_nobody_is_judged_by_a_leader_that_stood_still_itself(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await control.duties()
        north.wire.is_cut = True
        control.clock.jump(1000.0)  # as when the machine was suspended
        await control.duties()
        assert (await control.row("north")).state == "ready"


async def test_nothing_is_taken_for_dead_while_it_is_heard(url):
    async with run_control_plane(url) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        north = control.hosts["north"]
        with pytest.raises(HostAliveError) as caught:
            await control.operate(operator_actions.confirm_dead, north, confirm="north")
        assert "offline" not in caught.value.hint, "an agent that lives brings its host back at once"
        await control.pass_silently(north)
        with pytest.raises(ConfirmationError):
            await control.operate(operator_actions.confirm_dead, north, confirm="nort")
        assert unknown(await control.vm(vm))


async def test_an_operators_word_restarts_what_may_be_restarted(either_url):
    async with run_control_plane(either_url) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=True)
        kept = await control.create_running(spec())
        disk = await control.create_running(with_disk())
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=False)
        north = control.hosts["north"]
        await north.stop()
        await control.pass_silently(north)
        assert await control.operate(operator_actions.confirm_dead, north, confirm="north") == 3
        assert (await control.until_vm(vm, is_running)).home.name == "south"
        assert state_of(await control.vm(kept)) == "stopped"
        assert state_of(await control.vm(disk)) == "lost"
        assert (await control.row("north")).state == "fenced"
        north.boot = "boot-2"
        for here in north.driver.vms.values():
            here.power = "stopped"  # the machine was off
        north.wire.is_cut = False
        north.start()
        await control.until_host("north", "ready")
        # What has no disk is removed there; the disk of the lost one is all that is left of it, and stays.
        await until(lambda: sorted(north.driver.vms) == [disk])
        assert north.power(disk) == "stopped"
        await control.wish(disk, desired_state.delete)
        await until(lambda: not north.driver.vms)


def with_disk():
    return spec(disks=[DiskSpec(size="1Gi")])


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def test_only_a_successful_fencing_command_is_proof(url, tmp_path):
    command = script(tmp_path / "fence", f'echo "$HOSTLER_HOST" >> {tmp_path}/asked; exit $(cat {tmp_path}/code)')
    (tmp_path / "code").write_text("1")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(command),))

    async with run_control_plane(url, settings=settings) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        north = control.hosts["north"]
        await control.pass_silently(north)
        await control.duties()
        await until(lambda: any("exited with 1" in line for line in control.leader.told))
        assert unknown(await control.vm(vm))
        (tmp_path / "code").write_text("0")
        await control.duties()  # too soon after the one that failed
        await north.stop()
        await control.pass_silently(north, seconds=control.times.fence_again_s)
        assert (await control.until_vm(vm, is_running)).home.name == "south"
        assert (await control.row("north")).state == "fenced"
        assert (tmp_path / "asked").read_text().split() == ["north", "north"]


async def test_fencing_that_outlasts_a_registration_proves_nothing(url, tmp_path):
    """Fencing is slow; the host comes back, falls silent again, and only then the old fencing succeeds."""
    text = f"echo asked >> {tmp_path}/asked; until test -e {tmp_path}/done; do sleep 0.02; done"
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(script(tmp_path / "fence", text)),))

    async with run_control_plane(url, settings=settings) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        north = control.hosts["north"]
        await control.pass_silently(north)
        await control.duties()
        await until((tmp_path / "asked").exists)
        first = control.leader.duties._fencing[north.id]
        north.wire.is_cut = False
        await control.until_host("north", "ready")
        await control.until_vm(vm, is_running)
        await control.pass_silently(north)
        assert (await control.row("north")).state == "silent"
        (tmp_path / "done").touch()
        await first
        assert (await control.row("north")).state == "silent"
        assert unknown(await control.vm(vm))
        assert any("proves nothing" in line for line in control.leader.told)
        await control.duties()
        await until(lambda: north.id not in control.leader.duties._fencing)
        assert (await control.row("north")).state == "fenced", "a fencing of its own proves it"


async def test_no_fencing_without_restartable_vms_or_when_most_are_silent(url, tmp_path):
    command = script(tmp_path / "fence", f"echo asked >> {tmp_path}/asked")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(command),))

    async with run_control_plane(url, settings=settings) as control:
        await two_hosts_and(control, spec())
        north, south = control.hosts["north"], control.hosts["south"]
        await control.pass_silently(north)
        await control.duties()
        assert not control.leader.duties._fencing
        north.wire.is_cut = False
        await control.until_host("north", "ready")
        await control.create_running(RESTART)
        await control.pass_silently(north, south)
        await control.duties()
        assert {(await control.row(name)).state for name in ("north", "south")} == {"silent"}
        assert not control.leader.duties._fencing
        assert not (tmp_path / "asked").exists()


async def test_a_watchdog_is_proof_for_the_vms_that_it_stops_and_for_no_others(either_url):
    async with run_control_plane(either_url) as control:
        vm, _ = await two_hosts_and(control, RESTART, watchdog=True)
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=True)
        kept = await control.create_running(spec())
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=False)
        north = control.hosts["north"]
        await control.pass_silently(north)
        assert unknown(await control.vm(vm))  # silent, and no more than that
        await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
        await control.pass_silently(north, seconds=60.0)
        assert (await control.until_vm(vm, is_running)).home.name == "south"
        assert unknown(await control.vm(kept))
        assert (await control.row("north")).state == "silent"
        assert control.runs_on(kept) == ["north"]
        # It comes back with its old orders in mind, which say that the VM runs there; it must wait for new ones.
        answers = len(north.wire.answers)
        north.wire.holds_polls, north.wire.is_cut = True, False
        await until(lambda: north.wire.answers[answers:].count((REPORT_PATH, 200)) >= 5)
        assert (await control.row("north")).state == "ready"
        assert north.power(vm) == "stopped"
        north.wire.holds_polls = False
        await until(lambda: vm not in north.driver.vms)
        assert ("start", vm) not in north.driver.log[north.driver.log.index(("stop", vm)) :]
        assert control.runs_on(vm) == ["south"]
        await control.until_vm(kept, is_running)
        await control.check_agreement()


async def test_without_a_watchdog_its_time_proves_nothing(url):
    async with run_control_plane(url) as control:
        vm, _ = await two_hosts_and(control, RESTART)
        north = control.hosts["north"]
        await control.pass_silently(north)
        await control.pass_silently(north, seconds=60.0)
        assert unknown(await control.vm(vm))


async def test_watchdog_state_is_known_by_next_heartbeat_and_written_once(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        for is_watched in (True, False, True):
            north.is_watched = partial(bool, is_watched)
            await control.until_watched("north", is_watched)
            version = (await control.row("north")).version
            north.wire.answers.clear()
            await until(lambda: north.wire.answers.count((REPORT_PATH, 200)) >= 3)
            assert (await control.row("north")).version == version


async def test_a_host_whose_watchdog_failed_before_it_fell_silent_proves_nothing(either_url):
    async with run_control_plane(either_url) as control:
        vm, _ = await two_hosts_and(control, RESTART, watchdog=True)
        north = control.hosts["north"]
        north.is_watched = lambda: False
        await control.until_watched("north", False)
        await control.pass_silently(north)
        await control.pass_silently(north, seconds=60.0)
        assert unknown(await control.vm(vm))
        assert control.runs_on(vm) == ["north"]


async def test_a_real_watchdog_proves_nothing_once_it_is_killed_or_stands_still(url, tmp_path):
    ends = {"killed": signal.SIGKILL, "still": signal.SIGSTOP}

    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(run_control_plane(url))
        dogs, vms = {}, {}
        for name in ends:
            host = await control.join(name)
            host.is_watched = partial(AgentFolder(tmp_path / name).is_watched, "qemu /vms")
            dogs[name] = await stack.enter_async_context(watchdog_process(tmp_path / name, "qemu /vms"))
            await control.until_watched(name, True)
            vms[name] = await control.create_running(spec(cpu="8", when_lost="restart"))
        await control.join("south")
        for name, number in ends.items():
            dogs[name].send_signal(number)
        for name in ends:
            await control.until_watched(name, False)
        silent = [control.hosts[name] for name in ends]
        await control.pass_silently(*silent)
        await control.pass_silently(*silent, seconds=60.0)
        for name, vm in vms.items():
            assert unknown(await control.vm(vm))
            assert control.runs_on(vm) == [name]


async def test_a_real_watchdog_that_works_is_proof(url, tmp_path):
    home = AgentFolder(tmp_path)

    async with run_control_plane(url) as control, watchdog_process(tmp_path, "qemu /vms"):
        vm, _ = await two_hosts_and(control, RESTART)
        north = control.hosts["north"]
        north.is_watched = lambda: home.is_watched("qemu /vms")
        await control.until_watched("north", True)
        north.is_watched = lambda: True  # it was seen to work; on a busy machine its next look may be late
        await control.pass_silently(north)
        await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
        await control.pass_silently(north, seconds=60.0)
        assert (await control.until_vm(vm, is_running)).home.name == "south"


async def test_pending_report_does_not_hide_next_watchdog_state(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        north.wire.is_cut = True
        await until(lambda: not north.wire.in_flight)
        fleet = control.leader.fleet
        last = [request for request in north.wire.seen if request.path == REPORT_PATH][-1]
        report = msgspec.json.decode(last.body, type=Report)

        def next_report(by: int, is_watched: bool) -> Report:
            return msgspec.structs.replace(report, sequence=report.sequence + by, is_watched=is_watched)

        taken = asyncio.ensure_future(fleet.report(north.credential, next_report(1, True)))
        session = fleet.sessions._by_host[north.id]
        while session.sequence == report.sequence:
            await asyncio.sleep(0)
        # Its sender waits no longer and sends the next one, while this one is still being written.
        await fleet.report(north.credential, next_report(2, False))
        await taken
        assert not read_body(await control.row("north")).is_watched


async def test_watchdog_without_the_order_proves_nothing_about_a_vm(url):
    async with run_control_plane(url) as control:
        vm, _ = await two_hosts_and(control, spec(), watchdog=True)
        north = control.hosts["north"]
        north.wire.is_cut = True
        await control.wish(vm, desired_state.resize, RESTART)  # the order never gets there
        await control.pass_silently(north)
        await control.pass_silently(north, seconds=60.0)
        assert unknown(await control.vm(vm))
        assert control.runs_on(vm) == ["north"]


async def test_a_host_that_was_forced_offline_comes_back_by_registering(url):
    async with run_control_plane(url) as control:
        vm, _ = await two_hosts_and(control, spec())
        north = control.hosts["north"]
        north.wire.is_cut = True
        await control.operate(operator_actions.force_offline, north, confirm="north")
        assert (await control.row("north")).state == "offline"
        assert unknown(await control.vm(vm))
        north.wire.is_cut = False
        await control.until_host("north", "ready")
        await control.until_vm(vm, is_running)
