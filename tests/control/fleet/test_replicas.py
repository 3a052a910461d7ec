"""Two replicas on one PostgreSQL: agents change between them, and the leader hears those of the other."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Report, VmReport
from hostler.control.fleet.times import times_for
from hostler.control.vms.state import state_of
from tests.control.fleet.scene import SETTINGS, Scene, is_running, scene, spec
from tests.control.fleet.sides import Replica
from tests.wait import until

TIMES = msgspec.structs.replace(times_for(SETTINGS), publish_s=0.05)


def other(world: Scene) -> Replica:
    return next(one for one in world.replicas if one is not world.leader)


def test_an_agent_that_changes_replicas_registers_again(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2) as world:
            north = await world.join("north", replica=world.leader)
            vm = await world.create_running()
            epoch = (await world.row("north")).epoch
            old = [request for request in north.wire.seen if request.path == REPORT_PATH][-1]
            answers = len(north.wire.answers)
            north.wire.replica = other(world)
            await until(lambda: (REGISTER_PATH, 200) in north.wire.answers[answers:])
            assert (REPORT_PATH, 409) in north.wire.answers[answers:]
            assert (await world.row("north")).epoch == epoch + 1
            # The replica that it left believes nothing more of the old registration that would be written down.
            report = msgspec.json.decode(old.body, type=Report)
            lie = VmReport(vm=vm, state="stopped", generation=1)
            forged = msgspec.structs.replace(report, sequence=report.sequence + 10_000, vms=(lie,))
            before = await world.everything()
            response = await world.leader.send(msgspec.structs.replace(old, body=msgspec.json.encode(forged)))
            assert response.status == 409
            assert await world.everything() == before
            second = await world.create_running(spec())
            assert world.runs_on(second) == ["north"]

    asyncio.run(story())


def test_the_leader_knows_whom_the_other_replica_hears(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=TIMES) as world:
            await world.join("here", replica=world.leader)
            there = await world.join("there", replica=other(world))
            vm = await world.create_running(spec(host_name="there"))
            await world.pass_silently(seconds=2 * world.settings.silent_after_s)
            assert (await world.row("there")).state == "ready"
            await world.pass_silently(there)
            assert (await world.row("there")).state == "silent"
            assert (await world.row("here")).state == "ready"
            assert state_of(await world.vm(vm)) == "unknown"
            there.wire.is_cut = False
            await world.until_vm(vm, is_running)

    asyncio.run(story())


def test_another_replica_takes_over_and_judges_nobody_at_once(shared_url):
    async def story() -> None:
        async with scene(shared_url, replicas=2, times=TIMES) as world:
            first, second = world.leader, other(world)
            north = await world.join("north", replica=second)
            vm = await world.create_running()
            await first.stop()
            world.replicas.remove(first)
            await until(lambda: second.books.is_leader)
            world.clock.jump(1000.0)
            await second.duties.look()
            assert (await world.row("north")).state == "ready"
            assert is_running(await world.vm(vm))
            assert north.error is None
            assert world.runs_on(await world.create_running()) == ["north"]

    asyncio.run(story())
