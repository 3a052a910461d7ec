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
from hostler.agent.running import Home
from hostler.control.fleet import operating
from hostler.control.fleet.errors import ConfirmationError, HostAliveError
from hostler.control.fleet.hosts import read_body
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from tests.agent.guard import watchdog_process
from tests.control.fleet.scene import SETTINGS, Scene, is_running, scene, spec
from tests.wait import until

RESTART = spec(when_lost="restart")


def unknown(vm: Vm) -> bool:
    return state_of(vm) == "unknown"


async def two_hosts_and(world: Scene, wanted, **more) -> tuple[str, str]:
    """Return a VM that runs on north, which has a neighbour."""
    await world.join("north", **more)
    vm = await world.create_running(wanted)
    await world.join("south", **more)
    return vm, world.hosts["north"].id


def test_a_silent_host_makes_its_vms_unknown_and_nothing_else_and_is_heard_again(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            before = await world.vm(vm)
            north = world.hosts["north"]
            await world.pass_silently(north)
            assert (await world.row("north")).state == "silent"
            assert (await world.row("south")).state == "ready"
            now = await world.vm(vm)
            assert unknown(now)
            assert now == msgspec.structs.replace(before, is_unknown=True)
            await world.pass_silently(north, seconds=60.0)
            assert await world.vm(vm) == now
            assert world.runs_on(vm) == ["north"]
            north.wire.is_cut = False
            await world.until_host("north", "ready")
            assert await world.until_vm(vm, is_running) == before
            await world.check_agreement()

    asyncio.run(story())


def test_a_silent_host_gets_no_new_vms(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await world.pass_silently(north)
            vm = await world.create()
            assert (await world.until_vm(vm, lambda one: bool(one.why))).home is None
            north.wire.is_cut = False
            await world.until_vm(vm, is_running)

    asyncio.run(story())


def test_nobody_is_judged_before_a_new_leader_had_time_to_hear(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            north.wire.is_cut = True
            world.clock.jump(1000.0)
            await world.duties()  # its first look
            assert (await world.row("north")).state == "ready"
            await world.pass_silently(north)
            assert (await world.row("north")).state == "silent"

    asyncio.run(story())


def test_nobody_is_judged_by_a_leader_that_stood_still_itself(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await world.duties()
            north.wire.is_cut = True
            world.clock.jump(1000.0)  # as when the machine was suspended
            await world.duties()
            assert (await world.row("north")).state == "ready"

    asyncio.run(story())


def test_nothing_is_taken_for_dead_while_it_is_heard(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            north = world.hosts["north"]
            with pytest.raises(HostAliveError) as caught:
                await world.operate(operating.confirm_dead, north, confirm="north")
            assert "offline" not in caught.value.hint, "an agent that lives brings its host back at once"
            await world.pass_silently(north)
            with pytest.raises(ConfirmationError):
                await world.operate(operating.confirm_dead, north, confirm="nort")
            assert unknown(await world.vm(vm))

    asyncio.run(story())


def test_an_operators_word_restarts_what_may_be_restarted(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=True)
            kept = await world.create_running(spec())
            disk = await world.create_running(with_disk())
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=False)
            north = world.hosts["north"]
            await north.stop()
            await world.pass_silently(north)
            assert await world.operate(operating.confirm_dead, north, confirm="north") == 3
            assert (await world.until_vm(vm, is_running)).home.name == "south"
            assert state_of(await world.vm(kept)) == "stopped"
            assert state_of(await world.vm(disk)) == "lost"
            assert (await world.row("north")).state == "fenced"
            north.boot = "boot-2"
            for here in north.driver.vms.values():
                here.power = "stopped"  # the machine was off
            north.wire.is_cut = False
            north.start()
            await world.until_host("north", "ready")
            # What has no disk is removed there; the disk of the lost one is all that is left of it, and stays.
            await until(lambda: sorted(north.driver.vms) == [disk])
            assert north.power(disk) == "stopped"
            await world.wish(disk, wishes.delete)
            await until(lambda: not north.driver.vms)

    asyncio.run(story())


def with_disk():
    return spec(disks=[DiskSpec(size="1Gi")])


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_fencing_command_that_succeeds_is_proof_and_one_that_fails_is_none(url, tmp_path):
    command = script(tmp_path / "fence", f'echo "$HOSTLER_HOST" >> {tmp_path}/asked; exit $(cat {tmp_path}/code)')
    (tmp_path / "code").write_text("1")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(command),))

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            north = world.hosts["north"]
            await world.pass_silently(north)
            await world.duties()
            await until(lambda: any("exited with 1" in line for line in world.leader.told))
            assert unknown(await world.vm(vm))
            (tmp_path / "code").write_text("0")
            await world.duties()  # too soon after the one that failed
            await north.stop()
            await world.pass_silently(north, seconds=world.times.fence_again_s)
            assert (await world.until_vm(vm, is_running)).home.name == "south"
            assert (await world.row("north")).state == "fenced"
            assert (tmp_path / "asked").read_text().split() == ["north", "north"]

    asyncio.run(story())


def test_fencing_that_outlasts_a_registration_proves_nothing(url, tmp_path):
    """Fencing is slow; the host comes back, falls silent again, and only then the old fencing succeeds."""
    text = f"echo asked >> {tmp_path}/asked; until test -e {tmp_path}/done; do sleep 0.02; done"
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(script(tmp_path / "fence", text)),))

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            north = world.hosts["north"]
            await world.pass_silently(north)
            await world.duties()
            await until((tmp_path / "asked").exists)
            first = world.leader.duties._fencing[north.id]
            north.wire.is_cut = False
            await world.until_host("north", "ready")
            await world.until_vm(vm, is_running)
            await world.pass_silently(north)
            assert (await world.row("north")).state == "silent"
            (tmp_path / "done").touch()
            await first
            assert (await world.row("north")).state == "silent"
            assert unknown(await world.vm(vm))
            assert any("proves nothing" in line for line in world.leader.told)
            await world.duties()
            await until(lambda: north.id not in world.leader.duties._fencing)
            assert (await world.row("north")).state == "fenced", "a fencing of its own proves it"

    asyncio.run(story())


def test_no_host_is_fenced_for_vms_that_would_not_start_elsewhere_or_when_most_are_silent(url, tmp_path):
    command = script(tmp_path / "fence", f"echo asked >> {tmp_path}/asked")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(str(command),))

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            await two_hosts_and(world, spec())
            north, south = world.hosts["north"], world.hosts["south"]
            await world.pass_silently(north)
            await world.duties()
            assert not world.leader.duties._fencing
            north.wire.is_cut = False
            await world.until_host("north", "ready")
            await world.create_running(RESTART)
            await world.pass_silently(north, south)
            await world.duties()
            assert {(await world.row(name)).state for name in ("north", "south")} == {"silent"}
            assert not world.leader.duties._fencing
            assert not (tmp_path / "asked").exists()

    asyncio.run(story())


def test_a_watchdog_is_proof_for_the_vms_that_it_stops_and_for_no_others(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            vm, _ = await two_hosts_and(world, RESTART, watchdog=True)
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=True)
            kept = await world.create_running(spec())
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=False)
            north = world.hosts["north"]
            await world.pass_silently(north)
            assert unknown(await world.vm(vm))  # silent, and no more than that
            await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
            await world.pass_silently(north, seconds=60.0)
            assert (await world.until_vm(vm, is_running)).home.name == "south"
            assert unknown(await world.vm(kept))
            assert (await world.row("north")).state == "silent"
            assert world.runs_on(kept) == ["north"]
            # It comes back with its old orders in mind, which say that the VM runs there; it must wait for new ones.
            answers = len(north.wire.answers)
            north.wire.holds_polls, north.wire.is_cut = True, False
            await until(lambda: north.wire.answers[answers:].count((REPORT_PATH, 200)) >= 5)
            assert (await world.row("north")).state == "ready"
            assert north.power(vm) == "stopped"
            north.wire.holds_polls = False
            await until(lambda: vm not in north.driver.vms)
            assert ("start", vm) not in north.driver.log[north.driver.log.index(("stop", vm)) :]
            assert world.runs_on(vm) == ["south"]
            await world.until_vm(kept, is_running)
            await world.check_agreement()

    asyncio.run(story())


def test_without_a_watchdog_its_time_proves_nothing(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, _ = await two_hosts_and(world, RESTART)
            north = world.hosts["north"]
            await world.pass_silently(north)
            await world.pass_silently(north, seconds=60.0)
            assert unknown(await world.vm(vm))

    asyncio.run(story())


def test_what_a_host_says_of_its_watchdog_is_known_by_the_next_heartbeat_and_is_written_once(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            for is_watched in (True, False, True):
                north.is_watched = partial(bool, is_watched)
                await world.until_watched("north", is_watched)
                version = (await world.row("north")).version
                north.wire.answers.clear()
                await until(lambda: north.wire.answers.count((REPORT_PATH, 200)) >= 3)
                assert (await world.row("north")).version == version

    asyncio.run(story())


def test_a_host_whose_watchdog_failed_before_it_fell_silent_proves_nothing(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            vm, _ = await two_hosts_and(world, RESTART, watchdog=True)
            north = world.hosts["north"]
            north.is_watched = lambda: False
            await world.until_watched("north", False)
            await world.pass_silently(north)
            await world.pass_silently(north, seconds=60.0)
            assert unknown(await world.vm(vm))
            assert world.runs_on(vm) == ["north"]

    asyncio.run(story())


def test_a_real_watchdog_proves_nothing_once_it_is_killed_or_stands_still(url, tmp_path):
    ends = {"killed": signal.SIGKILL, "still": signal.SIGSTOP}

    async def story() -> None:
        async with AsyncExitStack() as stack:
            world = await stack.enter_async_context(scene(url))
            dogs, vms = {}, {}
            for name in ends:
                host = await world.join(name)
                host.is_watched = partial(Home(tmp_path / name).is_watched, "qemu /vms")
                dogs[name] = await stack.enter_async_context(watchdog_process(tmp_path / name, "qemu /vms"))
                await world.until_watched(name, True)
                vms[name] = await world.create_running(spec(cpu="8", when_lost="restart"))
            await world.join("south")
            for name, number in ends.items():
                dogs[name].send_signal(number)
            for name in ends:
                await world.until_watched(name, False)
            silent = [world.hosts[name] for name in ends]
            await world.pass_silently(*silent)
            await world.pass_silently(*silent, seconds=60.0)
            for name, vm in vms.items():
                assert unknown(await world.vm(vm))
                assert world.runs_on(vm) == [name]

    asyncio.run(story())


def test_a_real_watchdog_that_works_is_proof(url, tmp_path):
    home = Home(tmp_path)

    async def story() -> None:
        async with scene(url) as world, watchdog_process(tmp_path, "qemu /vms"):
            vm, _ = await two_hosts_and(world, RESTART)
            north = world.hosts["north"]
            north.is_watched = lambda: home.is_watched("qemu /vms")
            await world.until_watched("north", True)
            north.is_watched = lambda: True  # it was seen to work; on a busy machine its next look may be late
            await world.pass_silently(north)
            await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
            await world.pass_silently(north, seconds=60.0)
            assert (await world.until_vm(vm, is_running)).home.name == "south"

    asyncio.run(story())


def test_a_report_on_its_way_to_the_books_does_not_hide_what_the_next_one_says_of_the_watchdog(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
            north.wire.is_cut = True
            await until(lambda: not north.wire.in_flight)
            fleet = world.leader.fleet
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
            assert not read_body(await world.row("north")).is_watched

    asyncio.run(story())


def test_a_watchdog_that_was_never_told_to_stop_a_vm_proves_nothing_about_it(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, _ = await two_hosts_and(world, spec(), watchdog=True)
            north = world.hosts["north"]
            north.wire.is_cut = True
            await world.wish(vm, wishes.resize, RESTART)  # the order never gets there
            await world.pass_silently(north)
            await world.pass_silently(north, seconds=60.0)
            assert unknown(await world.vm(vm))
            assert world.runs_on(vm) == ["north"]

    asyncio.run(story())


def test_a_host_that_was_forced_offline_comes_back_by_registering(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, _ = await two_hosts_and(world, spec())
            north = world.hosts["north"]
            north.wire.is_cut = True
            await world.operate(operating.force_offline, north, confirm="north")
            assert (await world.row("north")).state == "offline"
            assert unknown(await world.vm(vm))
            north.wire.is_cut = False
            await world.until_host("north", "ready")
            await world.until_vm(vm, is_running)

    asyncio.run(story())
