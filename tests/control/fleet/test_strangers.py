"""VMs that an agent has by its own records and that no row knows: listed with its host, told once, never touched."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Departed, VmReport
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.store.history import log
from tests.control.fleet.control_plane import ControlPlane, run_control_plane
from tests.control.fleet.test_agent_ids import registration_of
from tests.control.fleet.test_refusals import last_report, reports_of
from tests.wait import until


async def told_of(control: ControlPlane) -> list[str]:
    """Return the lines of the log that speak of VMs that nobody knows."""
    entries = await control.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    notes = [msgspec.json.decode(entry.body).get("text", "") for entry in entries if entry.kind == "note"]
    return [text for text in notes if "unknown VM" in text]


async def strangers(control: ControlPlane) -> tuple[str, ...]:
    return read_body(await control.row("north")).strangers


async def test_a_vm_that_nobody_knows_is_listed_and_told_once(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = True
        lost = VmReport(vm="lost", state="running", generation=3)
        report = msgspec.structs.replace(last_report(north), sequence=10_000, vms=(lost,))
        for number in (10_000, 10_001):
            again = msgspec.structs.replace(report, sequence=number)
            await control.leader.fleet.report(north.credential, again)
        assert await strangers(control) == ("lost",)
        known = tuple(one for one in registration_of(north).vms if one.vm == vm)
        message = msgspec.structs.replace(registration_of(north), agent="next", vms=(*known, lost))
        await control.leader.fleet.register(north.credential, message)
        assert await strangers(control) == ("lost",)
        assert await told_of(control) == ["has unknown VMs, and keeps them: lost"]


async def test_it_is_listed_no_longer_when_it_is_gone(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = True
        last = last_report(north)
        vms = tuple(VmReport(vm=name, state="stopped") for name in ("a", "b", "c"))
        await control.leader.fleet.report(north.credential, msgspec.structs.replace(last, sequence=10_000, vms=vms))
        assert await strangers(control) == ("a", "b", "c")
        changed = msgspec.structs.replace(
            last,
            sequence=10_001,
            unknown=(),
            vms=(VmReport(vm="a", state="absent"),),
            departed=(Departed(vm="b", generation=1),),
        )
        await control.leader.fleet.report(north.credential, changed)
        assert await strangers(control) == ("c",)


async def test_vms_that_are_known_are_no_strangers_wherever_they_belong(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        vm = await control.create_running()
        stranger = south if control.runs_on(vm) == ["north"] else north
        await until(lambda: bool(reports_of(stranger)))
        stranger.wire.is_cut = True
        said = VmReport(vm=vm, state="stopped", generation=1)
        report = msgspec.structs.replace(last_report(stranger), sequence=10_000, vms=(said,))
        await control.leader.fleet.report(stranger.credential, report)
        body = read_body(await control.row(stranger.name))
        assert (body.strangers, body.remains) == ((), (vm,))
