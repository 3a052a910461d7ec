"""Two replicas on one PostgreSQL: agents change between them, and the leader hears those of the other."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Report, VmReport
from hostler.control.fleet.times import times_for
from hostler.control.vms.state import state_of
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import FleetReplica
from tests.wait import until

TIMES = msgspec.structs.replace(times_for(SETTINGS), publish_s=0.05)


def other(control: ControlPlane) -> FleetReplica:
    return next(one for one in control.replicas if one is not control.leader)


async def test_an_agent_that_changes_replicas_registers_again(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        north = await control.join("north", replica=control.leader)
        vm = await control.create_running()
        epoch = (await control.row("north")).epoch
        old = [request for request in north.wire.seen if request.path == REPORT_PATH][-1]
        answers = len(north.wire.answers)
        north.wire.replica = other(control)
        await until(lambda: (REGISTER_PATH, 200) in north.wire.answers[answers:])
        assert (REPORT_PATH, 409) in north.wire.answers[answers:]
        assert (await control.row("north")).epoch == epoch + 1
        # The replica that it left believes nothing more of the old registration that would be written down.
        report = msgspec.json.decode(old.body, type=Report)
        lie = VmReport(vm=vm, state="stopped", generation=1)
        forged = msgspec.structs.replace(report, sequence=report.sequence + 10_000, vms=(lie,))
        before = await control.everything()
        response = await control.leader.send(msgspec.structs.replace(old, body=msgspec.json.encode(forged)))
        assert response.status == 409
        assert await control.everything() == before
        second = await control.create_running(spec())
        assert control.runs_on(second) == ["north"]


async def test_the_leader_knows_whom_the_other_replica_hears(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=TIMES) as control:
        await control.join("here", replica=control.leader)
        there = await control.join("there", replica=other(control))
        vm = await control.create_running(spec(host_name="there"))
        await control.pass_silently(seconds=2 * control.settings.silent_after_s)
        assert (await control.row("there")).state == "ready"
        await control.pass_silently(there)
        assert (await control.row("there")).state == "silent"
        assert (await control.row("here")).state == "ready"
        assert state_of(await control.vm(vm)) == "unknown"
        there.wire.is_cut = False
        await control.until_vm(vm, is_running)


async def test_another_replica_takes_over_and_judges_nobody_at_once(shared_url):
    async with run_control_plane(shared_url, replicas=2, times=TIMES) as control:
        first, second = control.leader, other(control)
        north = await control.join("north", replica=second)
        vm = await control.create_running()
        await first.stop()
        control.replicas.remove(first)
        await until(lambda: second.books.is_leader)
        control.clock.jump(1000.0)
        await second.duties.look()
        assert (await control.row("north")).state == "ready"
        assert is_running(await control.vm(vm))
        assert north.error is None
        assert control.runs_on(await control.create_running()) == ["north"]
