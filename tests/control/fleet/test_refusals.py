"""Messages that must not count: replays, older ones, forged ones, other hosts', those of the deleted."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.connection.link import AgentRejectedError
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register, Report, VmReport
from hostler.control.access import ForbiddenError, UnauthenticatedError
from hostler.control.fleet import operator_actions
from hostler.control.fleet.errors import ConfirmationError, HostDeletedError, StaleReportError, StillNeededError
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.times import times_for
from hostler.control.vms import desired_state
from hostler.errors import InputError
from hostler.runtime.transport import Request
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_stopped, run_control_plane
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.wait import until

QUICK = msgspec.structs.replace(times_for(SETTINGS), publish_s=0.05)
QUIET = msgspec.structs.replace(SETTINGS, lease_ttl_s=7200.0, renew_s=3600.0)


def last_report(host: HostWithAgent) -> Report:
    return msgspec.json.decode(reports_of(host)[-1].body, type=Report)


def reports_of(host: HostWithAgent) -> list[Request]:
    return [request for request in host.wire.seen if request.path == REPORT_PATH]


async def refused(
    control: ControlPlane, host: HostWithAgent, report: Report, kind: type[Exception], credential: str = ""
) -> None:
    """See a report refused, and nothing changed by it."""
    before = await control.everything()
    with pytest.raises(kind):
        await host.wire.replica.fleet.report(credential or host.credential, report)
    assert await control.everything() == before


async def test_a_replay_of_anything_that_was_said_is_refused(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await control.wish(vm, desired_state.stop)
        await control.until_vm(vm, is_stopped)
        north.wire.is_cut = True
        before = await control.everything()
        said = reports_of(north)
        assert any(msgspec.json.decode(request.body, type=Report).vms for request in said)
        for request in said:
            assert (await north.wire.replica.send(request)).status == 409
        assert await control.everything() == before


async def test_older_sequences_forged_epochs_and_other_agents_are_refused(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        north.wire.is_cut = True
        last = last_report(north)
        lie = VmReport(vm=vm, state="stopped", generation=(await control.vm(vm)).generation)
        newer = msgspec.structs.replace(last, sequence=last.sequence + 1000, vms=(lie,))
        change = msgspec.structs.replace
        await refused(control, north, change(newer, sequence=last.sequence), StaleReportError)
        await refused(control, north, change(newer, sequence=1), StaleReportError)
        await refused(control, north, change(newer, epoch=last.epoch + 1), StaleReportError)
        await refused(control, north, change(newer, epoch=last.epoch - 1), StaleReportError)
        await refused(control, north, change(newer, agent="another"), StaleReportError)
        await refused(control, north, change(newer, boot="another"), StaleReportError)
        await north.wire.replica.fleet.report(north.credential, newer)  # and this is what a good one looks like
        assert (await control.vm(vm)).reported == "stopped"


async def test_a_report_with_the_credential_of_another_host_is_refused(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = south.wire.is_cut = True
        forged = msgspec.structs.replace(last_report(north), sequence=10_000)
        await refused(control, north, forged, ForbiddenError, credential=south.credential)
        await refused(control, north, forged, UnauthenticatedError, credential=await control.token())
        await refused(control, north, forged, UnauthenticatedError, credential="nonsense")
        last = "y" if north.credential.endswith("x") else "x"  # one in thirty-two secrets ends with either
        await refused(control, north, forged, UnauthenticatedError, credential=north.credential[:-1] + last)


async def test_what_a_host_says_of_another_hosts_vm_changes_nothing_about_it(url):
    async with run_control_plane(url) as control:
        north, south = await control.join("north"), await control.join("south")
        vm = await control.create_running()
        known = await control.vm(vm)
        stranger = south if known.home.host == north.id else north
        await until(lambda: bool(reports_of(stranger)))
        stranger.wire.is_cut = True
        lie = VmReport(vm=vm, state="absent", generation=known.generation)
        said = msgspec.structs.replace(last_report(stranger), sequence=10_000, vms=(lie,), gone=(vm, "nobody"))
        await stranger.wire.replica.fleet.report(stranger.credential, said)
        assert await control.vm(vm) == known


async def test_the_agent_of_a_deleted_host_is_reported_so_and_ends(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await until(lambda: bool(reports_of(north)))
        await control.operate(operator_actions.delete_host, north, confirm="north")
        error = await north.ended()
        assert isinstance(error, AgentRejectedError)
        assert "410" in error.message
        for path in (REGISTER_PATH, REPORT_PATH):
            old = next(request for request in north.wire.seen if request.path == path)
            assert (await north.wire.replica.send(old)).status == 410
        with pytest.raises(HostDeletedError):
            await north.wire.replica.fleet.orders(north.credential, 0, 0.0)
        del control.hosts["north"]
        again = await control.join("north")  # the name is free again, for another host
        vm = await control.create_running()
        assert again.power(vm) == "running"


async def test_when_a_deleted_host_was_heard_is_forgotten(url):
    async with run_control_plane(url, times=QUICK) as control:
        north, south = await control.join("north"), await control.join("south")
        await control.operate(operator_actions.delete_host, north, confirm="north")
        await north.ended()
        presence = control.leader.fleet.presence
        await until(lambda: presence.heard_at(north.id) is None)
        assert presence.heard_at(south.id) is not None


async def test_a_host_with_vms_is_not_deleted(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await control.create_running()
        with pytest.raises(StillNeededError):
            await control.operate(operator_actions.delete_host, north, confirm="north")
        with pytest.raises(ConfirmationError):
            await control.operate(operator_actions.delete_host, north, confirm="south")


async def test_a_heartbeat_writes_nothing(url):
    async with run_control_plane(url, settings=QUIET) as control:
        north = await control.join("north")
        await control.create_running()
        await until(lambda: not last_report(north).vms)
        before = await control.everything()
        commits, answers = control.database.commits, len(north.wire.answers)
        await until(lambda: north.wire.answers[answers:].count((REPORT_PATH, 200)) >= 20)
        assert control.database.commits == commits
        assert await control.everything() == before


async def test_a_registration_that_can_never_be_right_is_refused(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        north.wire.is_cut = True
        good = msgspec.json.decode(
            next(request for request in north.wire.seen if request.path == REGISTER_PATH).body, type=Register
        )
        size = msgspec.structs.replace
        bad = [
            size(good, size=size(good.size, cpu_millis=-1)),
            size(good, size=size(good.size, memory_bytes=2**63)),
            size(good, labels=(("with space", "x"),)),
            size(good, storages=("../etc",)),
            size(good, boot=""),
        ]
        before = await control.everything()
        for message in bad:
            with pytest.raises(InputError):
                await north.wire.replica.fleet.register(north.credential, message)
        assert await control.everything() == before


async def test_a_credential_that_was_rotated_gives_way_to_the_new_one(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        first = north.credential
        await control.operate(operator_actions.rotate, north)
        await until(lambda: north.credential != first)
        await control.create_running()
        assert not read_body(await control.row("north")).must_rotate
        assert north.error is None
