"""A proof waits for what the host's watchdog was told, whatever the service is set to since.

The watchdog here is a real one, and goes by the lease that its agent wrote.
"""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register, VmReport
from hostler.control.fleet import operator_actions
from hostler.control.fleet.hosts.host_body import HostBody, read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.fleet.hosts.silence import lose_stopped_vms
from hostler.control.fleet.times import FleetTimes, times_for
from hostler.control.fleet.watchdog_times import NEVER_S, proof_after_s, stop_age_s, with_stop_age
from hostler.control.store.rows.hosts import HostRow
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, run_control_plane
from tests.control.fleet.test_silence import RESTART, two_hosts_and, unknown
from tests.control.fleet.test_watchdog_margin import LONG_S, Guarded, guarded
from tests.wait import until

LATE = msgspec.structs.replace(SETTINGS, silent_after_s=100.0, stop_after_s=80.0)
EARLY = msgspec.structs.replace(SETTINGS, silent_after_s=10.0, stop_after_s=8.0)
QUICK = msgspec.structs.replace(times_for(EARLY), publish_s=0.05)
TIMES = FleetTimes(roll_s=2.0, margin_s=3.0)


async def starts_elsewhere_once_it_is_stopped(control: ControlPlane, silence: Guarded, vm: str) -> None:
    await silence.until_taken(vm)
    assert silence.host.power(vm) == "stopped"
    await control.join("south")
    await control.until_vm(vm, is_running)
    assert control.runs_on(vm) == ["south"]


async def told_s(control: ControlPlane) -> float:
    return read_body(await control.row("north")).told_stop_s


async def believe(control: ControlPlane, told_stop_s: float) -> None:
    """Write down that north goes by this."""
    row = await control.row("north")
    body = msgspec.structs.replace(read_body(row), told_stop_s=told_stop_s)
    await control.database.write(
        lambda connection: announce(connection, row, row, body, actor="", now_ns=control.clock.wall())
    )


async def test_impatient_service_waits_for_the_watchdogs_stop_age(either_url, tmp_path):
    async with run_control_plane(either_url, settings=LATE) as control:
        silence, vm = await guarded(control, tmp_path)
        assert silence.lease.stop_after_s == LATE.stop_after_s
        await silence.host.stop()
        await control.restart(EARLY)
        await starts_elsewhere_once_it_is_stopped(control, silence, vm)


async def test_host_found_silent_early_is_not_long_silent_for_patient_service(url, tmp_path):
    async with run_control_plane(url, settings=LATE) as control:
        silence, vm = await guarded(control, tmp_path)
        await silence.host.stop()
        await control.restart(EARLY)
        while await silence.state() == "ready":
            assert silence.silent_s < LONG_S
            await silence.pass_a_second()
        await control.restart(LATE)
        await starts_elsewhere_once_it_is_stopped(control, silence, vm)


async def test_an_answer_that_the_agent_may_not_have_got_shortens_nothing(url, tmp_path):
    async with run_control_plane(url, settings=LATE) as control:
        silence, vm = await guarded(control, tmp_path)
        north = silence.host
        await north.stop()
        await control.restart(EARLY)
        last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
        here = VmReport(vm=vm, state="running", generation=(await control.vm(vm)).home.generation)
        message = msgspec.json.decode(last.body, type=Register)
        message = msgspec.structs.replace(message, sequence=1000, vms=(here,))
        answer = await control.leader.fleet.register(north.credential, message)
        assert answer.stop_after_s == EARLY.stop_after_s
        assert await told_s(control) == LATE.stop_after_s
        await starts_elsewhere_once_it_is_stopped(control, silence, vm)


async def test_last_stop_age_counts_once_agent_reports(url):
    async with run_control_plane(url, settings=LATE) as control:
        north = await control.join("north", watchdog=True)
        assert await told_s(control) == LATE.stop_after_s
        await control.restart(EARLY)

        async def is_early() -> bool:
            return await told_s(control) == EARLY.stop_after_s

        await until(is_early)
        version = (await control.row("north")).version
        north.wire.answers.clear()
        await until(lambda: north.wire.answers.count((REPORT_PATH, 200)) >= 3)
        assert (await control.row("north")).version == version
        await control.restart(LATE)
        await until(lambda: (REGISTER_PATH, 200) in north.wire.answers)
        assert await told_s(control) == LATE.stop_after_s, "more counts before it is reported"


async def test_what_another_replica_told_counts_for_the_leader(shared_url):
    async with run_control_plane(shared_url, settings=EARLY, times=QUICK) as control:
        patient = await control.add_replica(settings=LATE)
        north = await control.join("north", replica=patient, watchdog=True)
        assert await told_s(control) == LATE.stop_after_s
        vm = await control.create_running(RESTART)
        await control.pass_silently(north, seconds=LATE.stop_after_s)
        assert (await control.row("north")).state == "silent"
        assert unknown(await control.vm(vm))
        await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
        await control.pass_silently(north, seconds=60.0)
        await control.join("south")
        await control.until_vm(vm, is_running)
        assert control.runs_on(vm) == ["south"]


async def test_host_without_recorded_stop_age_proves_nothing_until_it_reports(url):
    async with run_control_plane(url) as control:
        vm, _ = await two_hosts_and(control, RESTART, watchdog=True)
        north = control.hosts["north"]
        north.wire.is_cut = True
        await until(lambda: not north.wire.in_flight)
        await believe(control, 0.0)  # as rows are that an older version wrote
        await control.pass_silently(north)
        await control.pass_silently(north, seconds=LONG_S)
        assert unknown(await control.vm(vm))
        north.wire.is_cut = False

        async def is_told() -> bool:
            return await told_s(control) == SETTINGS.stop_after_s

        await until(is_told)
        await control.pass_silently(north)
        await north.driver.stop(vm, grace_s=0.0)  # what the watchdog does
        await control.pass_silently(north, seconds=LONG_S)
        assert (await control.until_vm(vm, is_running)).home.name == "south"


async def test_a_proof_is_not_taken_of_a_host_that_came_and_went_since(url):
    async with run_control_plane(url) as control:
        vm, host = await two_hosts_and(control, RESTART, watchdog=True)
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=True)
        await control.pass_silently(control.hosts["north"])
        epoch = (await control.row("north")).epoch
        for said, lost in ((epoch - 1, 0), (epoch, 1)):
            take = partial(lose_stopped_vms, host=host, epoch=said, now_ns=control.clock.wall())
            assert await control.database.write(take) == lost
        assert (await control.vm(vm)).home is None


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
    assert with_stop_age(row, HostBody(told_stop_s=known_s), told).told_stop_s == believed_s


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
    assert stop_age_s(HostBody(), settings) == 0.0
    assert proof_after_s(12.0, settings, TIMES, unheard_s=None) == NEVER_S
