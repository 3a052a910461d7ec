"""A proof waits for what the host's watchdog was told, whatever the service is set to since.

The watchdog here is a real one, and goes by the lease that its agent wrote.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register, VmReport
from hostler.control.fleet import operating
from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import HostBody, read_body
from hostler.control.fleet.promises import NEVER_S, proof_after_s, told_now_s, with_told
from hostler.control.fleet.silence import lose_watched
from hostler.control.fleet.times import FleetTimes, times_for
from hostler.control.store.hosts import HostRow
from tests.control.fleet.scene import SETTINGS, Scene, is_running, scene
from tests.control.fleet.test_silence import RESTART, two_hosts_and, unknown
from tests.control.fleet.test_watchdog_margin import LONG_S, Guarded, guarded
from tests.wait import until

LATE = msgspec.structs.replace(SETTINGS, silent_after_s=100.0, stop_after_s=80.0)
EARLY = msgspec.structs.replace(SETTINGS, silent_after_s=10.0, stop_after_s=8.0)
QUICK = msgspec.structs.replace(times_for(EARLY), publish_s=0.05)
TIMES = FleetTimes(roll_s=2.0, margin_s=3.0)


async def starts_elsewhere_once_it_is_stopped(world: Scene, silence: Guarded, vm: str) -> None:
    await silence.until_taken(vm)
    assert silence.host.power(vm) == "stopped"
    await world.join("south")
    await world.until_vm(vm, is_running)
    assert world.runs_on(vm) == ["south"]


async def told_s(world: Scene) -> float:
    return read_body(await world.row("north")).told_stop_s


async def believe(world: Scene, told_stop_s: float) -> None:
    """Write down that north goes by this."""
    row = await world.row("north")
    body = msgspec.structs.replace(read_body(row), told_stop_s=told_stop_s)
    await world.database.write(
        lambda connection: announce(connection, row, row, body, actor="", now_ns=world.clock.wall())
    )


def test_a_service_that_is_started_with_less_patience_waits_for_what_the_watchdog_was_told(either_url, tmp_path):
    async def story() -> None:
        async with scene(either_url, settings=LATE) as world:
            silence, vm = await guarded(world, tmp_path)
            assert silence.lease.stop_after_s == LATE.stop_after_s
            await silence.host.stop()
            await world.restart(EARLY)
            await starts_elsewhere_once_it_is_stopped(world, silence, vm)

    asyncio.run(story())


def test_who_was_found_silent_early_is_not_taken_for_long_silent_by_a_service_with_more_patience(url, tmp_path):
    async def story() -> None:
        async with scene(url, settings=LATE) as world:
            silence, vm = await guarded(world, tmp_path)
            await silence.host.stop()
            await world.restart(EARLY)
            while await silence.state() == "ready":
                assert silence.silent_s < LONG_S
                await silence.pass_a_second()
            await world.restart(LATE)
            await starts_elsewhere_once_it_is_stopped(world, silence, vm)

    asyncio.run(story())


def test_an_answer_that_the_agent_may_not_have_got_shortens_nothing(url, tmp_path):
    async def story() -> None:
        async with scene(url, settings=LATE) as world:
            silence, vm = await guarded(world, tmp_path)
            north = silence.host
            await north.stop()
            await world.restart(EARLY)
            last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
            here = VmReport(vm=vm, state="running", generation=(await world.vm(vm)).home.generation)
            message = msgspec.json.decode(last.body, type=Register)
            message = msgspec.structs.replace(message, sequence=1000, vms=(here,))
            answer = await world.leader.fleet.register(north.credential, message)
            assert answer.stop_after_s == EARLY.stop_after_s
            assert await told_s(world) == LATE.stop_after_s
            await starts_elsewhere_once_it_is_stopped(world, silence, vm)

    asyncio.run(story())


def test_what_an_agent_was_told_last_counts_once_it_reports_and_is_written_once(url):
    async def story() -> None:
        async with scene(url, settings=LATE) as world:
            north = await world.join("north", watchdog=True)
            assert await told_s(world) == LATE.stop_after_s
            await world.restart(EARLY)

            async def is_early() -> bool:
                return await told_s(world) == EARLY.stop_after_s

            await until(is_early)
            version = (await world.row("north")).version
            north.wire.answers.clear()
            await until(lambda: north.wire.answers.count((REPORT_PATH, 200)) >= 3)
            assert (await world.row("north")).version == version
            await world.restart(LATE)
            await until(lambda: (REGISTER_PATH, 200) in north.wire.answers)
            assert await told_s(world) == LATE.stop_after_s, "more counts before it is told"

    asyncio.run(story())


def test_what_another_replica_told_counts_for_the_leader(shared_url):
    async def story() -> None:
        async with scene(shared_url, settings=EARLY, times=QUICK) as world:
            patient = await world.add_replica(settings=LATE)
            north = await world.join("north", replica=patient, watchdog=True)
            assert await told_s(world) == LATE.stop_after_s
            vm = await world.create_running(RESTART)
            await world.pass_silently(north, seconds=LATE.stop_after_s)
            assert (await world.row("north")).state == "silent"
            assert unknown(await world.vm(vm))
            await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
            await world.pass_silently(north, seconds=60.0)
            await world.join("south")
            await world.until_vm(vm, is_running)
            assert world.runs_on(vm) == ["south"]

    asyncio.run(story())


def test_a_host_of_which_nobody_wrote_down_what_it_was_told_proves_nothing_until_it_reports_again(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, _ = await two_hosts_and(world, RESTART, watchdog=True)
            north = world.hosts["north"]
            north.wire.is_cut = True
            await until(lambda: not north.wire.in_flight)
            await believe(world, 0.0)  # as rows are that an older version wrote
            await world.pass_silently(north)
            await world.pass_silently(north, seconds=LONG_S)
            assert unknown(await world.vm(vm))
            north.wire.is_cut = False

            async def is_told() -> bool:
                return await told_s(world) == SETTINGS.stop_after_s

            await until(is_told)
            await world.pass_silently(north)
            await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
            await world.pass_silently(north, seconds=LONG_S)
            assert (await world.until_vm(vm, is_running)).home.name == "south"

    asyncio.run(story())


def test_a_proof_is_not_taken_of_a_host_that_came_and_went_since(url):
    async def story() -> None:
        async with scene(url) as world:
            vm, host = await two_hosts_and(world, RESTART, watchdog=True)
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=True)
            await world.pass_silently(world.hosts["north"])
            epoch = (await world.row("north")).epoch
            for said, lost in ((epoch - 1, 0), (epoch, 1)):
                take = partial(lose_watched, host=host, epoch=said, now_ns=world.clock.wall())
                assert await world.database.write(take) == lost
            assert (await world.vm(vm)).home is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("state", "known_s", "told", "believed_s"),
    [
        pytest.param("joined", 0.0, 8.0, 8.0, id="the first word"),
        pytest.param("ready", 80.0, 8.0, 80.0, id="less"),
        pytest.param("ready", 8.0, 80.0, 80.0, id="more"),
        pytest.param("ready", 8.0, 0.0, 0.0, id="to stop nothing"),
        pytest.param("ready", 0.0, 8.0, 0.0, id="nobody knows what before"),
        pytest.param("joined", 0.0, 0.0, 0.0, id="never anything"),
    ],
)
def test_until_it_reports_a_host_may_believe_the_worst_of_what_it_was_told(state, known_s, told, believed_s):
    row = HostRow(id="h1", name="h1", state=state)
    assert with_told(row, HostBody(told_stop_s=known_s), told).told_stop_s == believed_s


@pytest.mark.parametrize(
    ("told", "unheard_s", "after_s"),
    [
        pytest.param(12.0, 15.0, 3.0, id="it was silent for longer than its watchdog waits"),
        pytest.param(80.0, 15.0, 68.0, id="its watchdog waits for longer than that"),
        pytest.param(12.0, None, 20.0, id="it may have been answered until just now"),
        pytest.param(80.0, None, 88.0, id="by what it was told"),
        pytest.param(8.0, None, 20.0, id="and never sooner than by our own settings"),
        pytest.param(0.0, 15.0, NEVER_S, id="it was told nothing"),
    ],
)
def test_a_proof_waits_for_the_later_of_what_was_told_and_what_is_set(told, unheard_s, after_s):
    assert proof_after_s(told, SETTINGS, TIMES, unheard_s=unheard_s) == after_s


@pytest.mark.parametrize("stop_after_s", [0.0, SETTINGS.silent_after_s])
def test_a_leader_by_whose_settings_watchdogs_stop_nothing_takes_no_proof(stop_after_s):
    settings = msgspec.structs.replace(SETTINGS, stop_after_s=stop_after_s)
    assert told_now_s(HostBody(), settings) == 0.0
    assert proof_after_s(12.0, settings, TIMES, unheard_s=None) == NEVER_S
