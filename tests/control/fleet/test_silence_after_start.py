"""Silence after a start of the service, and after most hosts were silent: nobody who lives is fenced for it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hostler.control.settings import ControlSettings
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.control.fleet.test_silence import script
from tests.wait import until

PAUSE_S = 39.0  # the longest pause of an agent between two tries
SILENT_S = SETTINGS.silent_after_s
STEP_S = SILENT_S / 4  # of pass_silently
RESTART = spec(cpu="8", when_lost="restart")  # one fills a host


def fenced_by(folder: Path) -> ControlSettings:
    """Return settings with a fencing command that writes down for which hosts it is run."""
    command = script(folder / "fence", f'echo "$HOSTLER_HOST" >> {folder}/asked')
    return msgspec.structs.replace(SETTINGS, fence_command=(str(command),))


async def is_asked(control: ControlPlane, folder: Path) -> list[str]:
    """Return for which hosts the fencing command was run, once none is under way."""
    await until(lambda: not control.leader.duties._fencing)
    asked = folder / "asked"
    return asked.read_text().split() if asked.exists() else []


async def hosts_with_vms(control: ControlPlane, count: int) -> list[HostWithAgent]:
    hosts = [await control.join(f"host-{number}") for number in range(count)]
    for _ in hosts:
        await control.create_running(RESTART)
    return hosts


async def states(control: ControlPlane) -> list[str]:
    return [(await control.row(name)).state for name in control.hosts]


async def come_back(control: ControlPlane, *hosts: HostWithAgent) -> None:
    for host in hosts:
        host.wire.is_cut = False
    for host in hosts:
        await control.until_host(host.name, "ready")


async def test_restart_of_the_service_fences_no_host_that_lives(url, tmp_path):
    """Five agents wait up to 39 s between tries, so three are heard before the other two."""
    settings = fenced_by(tmp_path)

    async with run_control_plane(url, settings=settings, longest_pause_s=PAUSE_S) as control:
        hosts = await hosts_with_vms(control, 5)
        for host in hosts:
            host.wire.is_cut = True
        await control.restart(settings)
        await control.pass_silently(*hosts, seconds=2 * SILENT_S)
        assert await states(control) == ["ready"] * 5
        await come_back(control, *hosts[:3])
        await control.pass_silently(*hosts[3:], seconds=PAUSE_S - 2 * SILENT_S)
        await control.duties()
        await come_back(control, *hosts[3:])
        await control.pass_silently(seconds=SILENT_S + PAUSE_S)
        assert await states(control) == ["ready"] * 5
        assert await is_asked(control, tmp_path) == []


async def test_host_that_stays_away_after_a_start_is_silent_and_fenced_later(url, tmp_path):
    settings = fenced_by(tmp_path)

    async with run_control_plane(url, settings=settings, longest_pause_s=PAUSE_S) as control:
        gone, *_ = await hosts_with_vms(control, 3)
        await gone.stop()
        await control.restart(settings)
        await control.pass_silently(gone, seconds=SILENT_S + PAUSE_S - STEP_S)
        assert (await control.row(gone.name)).state == "ready"
        await control.pass_silently(gone, seconds=2 * STEP_S)
        await control.duties()
        assert await is_asked(control, tmp_path) == [gone.name]


async def test_host_that_was_silent_before_a_start_is_not_fenced_at_once(url, tmp_path):
    async with run_control_plane(url, longest_pause_s=PAUSE_S) as control:
        gone, *_ = await hosts_with_vms(control, 3)
        await control.pass_silently(gone, seconds=SILENT_S + PAUSE_S + STEP_S)
        assert (await control.row(gone.name)).state == "silent"
        await control.restart(fenced_by(tmp_path))
        await control.pass_silently(gone, seconds=SILENT_S + PAUSE_S - STEP_S)
        assert await is_asked(control, tmp_path) == []
        await control.pass_silently(gone, seconds=STEP_S)
        await control.duties()
        assert await is_asked(control, tmp_path) == [gone.name]


async def test_host_that_was_heard_since_the_start_is_silent_as_soon_as_ever(url):
    async with run_control_plane(url, longest_pause_s=PAUSE_S) as control:
        north = await control.join("north")
        await control.duties()  # the first look
        await control.pass_silently(seconds=STEP_S)
        await control.pass_silently(north, seconds=SILENT_S - STEP_S)
        assert await states(control) == ["ready"]
        await control.pass_silently(north, seconds=STEP_S)
        assert await states(control) == ["silent"]


async def test_leader_that_stood_still_gives_hosts_time_to_be_heard_again(url):
    async with run_control_plane(url, longest_pause_s=PAUSE_S) as control:
        north = await control.join("north")
        await control.duties()
        await control.pass_silently(seconds=STEP_S)
        north.wire.is_cut = True
        control.clock.jump(1000.0)  # as when the machine was suspended
        await control.pass_silently(north, seconds=SILENT_S + PAUSE_S - STEP_S)
        assert await states(control) == ["ready"]
        await control.pass_silently(north, seconds=2 * STEP_S)
        assert await states(control) == ["silent"]


async def test_fencing_waits_after_mass_silence_until_all_could_report(url, tmp_path):
    async with run_control_plane(url, settings=fenced_by(tmp_path), longest_pause_s=PAUSE_S) as control:
        hosts = await hosts_with_vms(control, 5)
        await control.duties()
        await control.pass_silently(seconds=STEP_S)
        await control.pass_silently(*hosts)
        await control.duties()
        assert await states(control) == ["silent"] * 5
        await come_back(control, *hosts[:3])
        await control.pass_silently(*hosts[3:], seconds=SILENT_S + PAUSE_S - 2 * STEP_S)
        assert await is_asked(control, tmp_path) == []
        await come_back(control, hosts[3])
        await control.pass_silently(hosts[4], seconds=4 * STEP_S)
        await control.duties()
        assert await is_asked(control, tmp_path) == [hosts[4].name]


async def test_first_hosts_of_a_mass_silence_are_not_fenced(url, tmp_path):
    """The service loses its network. Two of five hosts were heard a heartbeat earlier, so they are silent first."""
    settings = msgspec.structs.replace(fenced_by(tmp_path), heartbeat_s=STEP_S)

    async with run_control_plane(url, settings=settings) as control:
        hosts = await hosts_with_vms(control, 5)
        await control.duties()
        await control.pass_silently(seconds=STEP_S)
        await control.pass_silently(*hosts[:2], seconds=STEP_S)
        await control.pass_silently(*hosts, seconds=3 * STEP_S)
        await control.duties()  # a look at hosts that are silent
        assert await states(control) == ["silent", "silent", "ready", "ready", "ready"]
        assert await is_asked(control, tmp_path) == []
