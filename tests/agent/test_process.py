"""A whole agent on a fake host, against a control plane in memory, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.agent.connection.credentials import AgentIdentity, MemoryCredentials
from hostler.agent.connection.link import AgentRejectedError, Link
from hostler.agent.drivers.fake import FakeDriver, FakeVm, FakeWires, Fault
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import ORDERS_PATH, REGISTER_PATH, REPORT_PATH, HostSize, Migration, Order
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane
from tests.async_tests import run_with
from tests.recorded_log import recorded_log

GIB = 2**30
SHORTEST_WAIT_S = 1.0  # of all that an agent waits after a failure


class AgentHost:
    """What outlives an agent: its driver, its records, its credential."""

    def __init__(self, control_plane, name="one", **options):
        self.control_plane = control_plane
        self.driver = FakeDriver(name, **options)
        self.manifest = MemoryManifest()
        self.credentials = MemoryCredentials()
        self.runs = 0
        self.lines: list[str] = []
        self.is_watched = False

    def agent(self, token=TOKEN, **settings):
        self.runs += 1
        return Agent(
            Link(self.control_plane, self.credentials),
            self.driver,
            self.manifest,
            AgentSettings(name="one", **settings),
            boot="boot-1",
            run_id=f"{self.driver.host}-{self.runs}",
            token=token,
            watched_vms=lambda: 64 if self.is_watched else 0,
            clock=SimClock().now,
            rng=random.Random(self.runs),
            log=recorded_log(self.lines),
        )

    @asynccontextmanager
    async def running(self, **options):
        stopping = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self.agent(**options).run(stopping))
        try:
            yield task
        finally:
            stopping.set()
            await task

    async def run_and_kill(self, seconds):
        task = asyncio.get_running_loop().create_task(self.agent().run(asyncio.Event()))
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def simulate(scenario, seed=1):
    return run_simulation(scenario, seed, limit_s=20_000)


def vm(name="a", power="running", generation=1, **changes):
    return Order(vm=name, power=power, generation=generation, memory_bytes=changes.pop("memory_bytes", GIB), **changes)


@run_with(simulate)
async def test_an_agent_joins_carries_out_orders_and_reports_them():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    async with host.running():
        await asyncio.sleep(1)
        control_plane.order(vm())
        await asyncio.sleep(1)
        assert (control_plane.vms["a"].state, control_plane.vms["a"].generation) == ("running", 1)
        control_plane.order(vm(power="stopped", generation=2))
        await asyncio.sleep(1)
        assert (control_plane.vms["a"].state, control_plane.vms["a"].generation) == ("stopped", 2)
        control_plane.order(vm(power="absent", generation=3))
        await asyncio.sleep(1)
    assert control_plane.vms == {}
    assert host.driver.log == [("create", "a"), ("start", "a"), ("stop", "a"), ("delete", "a")]
    assert control_plane.registrations[0].driver == "fake"


@run_with(simulate)
async def test_a_quiet_agent_sends_heartbeats_and_nothing_else():
    control_plane = FakeControlPlane()
    async with AgentHost(control_plane).running():
        await asyncio.sleep(100)
    assert len(control_plane.reports) in range(19, 23)
    assert not any(report.vms or report.gone for report in control_plane.reports)
    assert len(control_plane.registrations) == 1


@run_with(simulate)
async def test_every_message_tells_whether_a_watchdog_works_now():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    async with host.running():
        await asyncio.sleep(10)
        host.is_watched = True
        before = len(control_plane.reports)
        await asyncio.sleep(10)
        assert {report.is_watched for report in control_plane.reports[:before]} == {False}
        assert {report.is_watched for report in control_plane.reports[before:]} == {True}
        control_plane.wants_resync = True
        await asyncio.sleep(10)
        host.is_watched = False
        before = len(control_plane.reports)
        await asyncio.sleep(10)
        assert {report.is_watched for report in control_plane.reports[before:]} == {False}
    assert [message.is_watched for message in control_plane.registrations] == [False, True]
    assert sum("the watchdog does not work" in line for line in host.lines) == 1


@run_with(simulate)
async def test_vms_outlive_the_agent_and_the_next_one_adopts_them():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    async with host.running():
        await asyncio.sleep(2)
    assert host.driver.vms["a"].power == "running"
    async with host.running(token=""):
        await asyncio.sleep(2)
    assert host.driver.log == [("create", "a"), ("start", "a")]
    assert [report.state for report in control_plane.registrations[1].vms] == ["running"]


@run_with(simulate)
async def test_orders_that_the_agent_missed_while_it_was_dead_are_carried_out():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    await host.run_and_kill(2)
    control_plane.order(vm(restarts=1, generation=2))
    async with host.running():
        await asyncio.sleep(2)
    assert host.driver.vms["a"].runs == 2


@pytest.mark.parametrize("seed", range(12))
def test_agent_killed_repeatedly_on_lossy_network_ends_as_ordered(seed):
    async def scenario():
        rng = random.Random(seed)
        control_plane = FakeControlPlane(seed=seed, loss=0.2)
        faults = [Fault(chance=0.1), Fault(chance=0.1, is_after=True)]
        delays = dict.fromkeys(("create", "start", "stop", "delete", "find"), 0.3)
        host = AgentHost(control_plane, faults=faults, seed=seed, delays_s=delays)
        host.driver.vms["stranger"] = FakeVm(order=vm("stranger"), power="running", is_ours=False)
        wanted: dict[str, Order] = {}
        for turn in range(8):
            for name in "abcdef":
                before = wanted.get(name, vm(name, generation=0))
                power = rng.choice(["running", "running", "stopped", "absent"])
                wanted[name] = msgspec.structs.replace(before, generation=turn + 1, power=power)
                control_plane.order(wanted[name])
            await host.run_and_kill(rng.uniform(0, 4))
        host.driver.faults.clear()
        control_plane.loss = 0.0
        control_plane.may_tear_down = True
        async with host.running():
            await asyncio.sleep(120)
        for name, order in wanted.items():
            here = host.driver.vms.get(name)
            assert (here.power if here else "absent") == order.power
            assert (control_plane.vms[name].state if name in control_plane.vms else "absent") == order.power
        assert control_plane.unknown == ("stranger",)
        assert host.driver.vms["stranger"].power == "running"

    simulate(scenario, seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_restart_happens_once_wherever_the_agent_is_killed(seed):
    async def scenario():
        control_plane = FakeControlPlane()
        host = AgentHost(control_plane, delays_s={"stop": 0.5, "start": 0.5})
        control_plane.order(vm())
        await host.run_and_kill(3)
        control_plane.order(vm(restarts=1))
        await host.run_and_kill(0.13 * seed)
        async with host.running():
            await asyncio.sleep(5)
        assert host.driver.vms["a"].runs == 2
        assert control_plane.vms["a"].restarts == 1

    simulate(scenario, seed)


@run_with(simulate)
async def test_a_rejected_agent_ends_and_its_vms_run_on():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    task = asyncio.get_running_loop().create_task(host.agent().run(asyncio.Event()))
    await asyncio.sleep(2)
    control_plane.credentials.clear()
    with pytest.raises(AgentRejectedError):
        await task
    assert host.driver.vms["a"].power == "running"


@run_with(simulate)
async def test_a_wrong_token_is_the_end():
    with pytest.raises(AgentRejectedError):
        await AgentHost(FakeControlPlane()).agent(token="wrong").run(asyncio.Event())


@run_with(simulate)
async def test_a_new_credential_replaces_the_old_one():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.new_credential = "secret-2"
    async with host.running():
        await asyncio.sleep(2)
        control_plane.credentials = {"secret-2"}
        await asyncio.sleep(100)
    assert host.credentials.load() == AgentIdentity("host-1", "secret-2")


@run_with(simulate)
async def test_tries_get_rarer_while_control_plane_is_away():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    async with host.running():
        await asyncio.sleep(2)
        control_plane.is_down = True
        await asyncio.sleep(1)
        host.driver.vms["a"].power = "stopped"
        control_plane.calls.clear()
        await asyncio.sleep(600)
        polls = [at for at, path in control_plane.calls if path == ORDERS_PATH]
        assert len(polls) in range(10, 30), "every 30 to 39 s"
        control_plane.is_down = False
        await asyncio.sleep(60)
    assert control_plane.vms["a"].state == "running"
    assert host.driver.vms["a"].runs == 2, "a guest that turned itself off is started again meanwhile"


@pytest.mark.parametrize(("stop_after_s", "most_s"), [(0.0, 5.0), (12.0, 4.0), (1e-9, 5.0)])
@run_with(simulate)
async def test_agent_is_heard_well_before_it_would_be_called_silent(stop_after_s, most_s):
    """A service that comes back hears it within a third of what it told, and 30 % by chance."""

    control_plane = FakeControlPlane(stop_after_s=stop_after_s)
    async with AgentHost(control_plane).running():
        await asyncio.sleep(12)
        control_plane.is_down = True
        control_plane.calls.clear()
        await asyncio.sleep(600)
    tries = [at for at, path in control_plane.calls if path == REPORT_PATH]
    pauses = [later - at for at, later in itertools.pairwise(tries)]
    assert max(pauses) <= most_s * 1.3 + 0.1
    assert min(pauses[5:]) >= most_s, "and no more often"


@run_with(simulate)
async def test_a_refused_report_leads_to_a_new_registration():
    control_plane = FakeControlPlane()
    async with AgentHost(control_plane).running():
        await asyncio.sleep(7)
        control_plane.refuse_reports = 1
        await asyncio.sleep(20)
        assert len(control_plane.registrations) == 2
        control_plane.wants_resync = True
        await asyncio.sleep(20)
    assert len(control_plane.registrations) == 3
    assert control_plane.polls.count(0) == 3, "after each of them all orders are asked for"


@pytest.mark.parametrize("down_s", [3, 100])
@run_with(simulate)
async def test_after_a_restart_of_the_service_all_goes_on_at_the_first_contact(down_s):
    control_plane = FakeControlPlane()
    async with AgentHost(control_plane).running():
        await asyncio.sleep(12)
        control_plane.is_down = True
        await asyncio.sleep(down_s)
        control_plane.is_down, control_plane.refuse_reports = False, 1  # it knows of no registration
        control_plane.calls.clear()
        await asyncio.sleep(60)
    assert len(control_plane.registrations) == 2
    first = {path: min(at for at, called in control_plane.calls if called == path) for _, path in control_plane.calls}
    contact = first[REPORT_PATH]
    assert first[REGISTER_PATH] - contact < SHORTEST_WAIT_S
    assert any(
        0 < at - first[REGISTER_PATH] < SHORTEST_WAIT_S for at, path in control_plane.calls if path == ORDERS_PATH
    )


@run_with(simulate)
async def test_agent_whose_reports_are_rejected_registers_ever_more_rarely():
    control_plane = FakeControlPlane()
    async with AgentHost(control_plane).running():
        await asyncio.sleep(12)
        control_plane.refuse_reports = 10_000
        await asyncio.sleep(300)
    assert len(control_plane.registrations) in range(5, 20)


@run_with(simulate)
async def test_registration_has_bridges_storages_and_protocols():
    control_plane = FakeControlPlane()
    async with AgentHost(control_plane).running(bridges=("br0",), storages=("nas",)):
        await asyncio.sleep(1)
    (message,) = control_plane.registrations
    assert (message.bridges, message.storages, message.protocols) == (("br0",), ("nas",), (1, 2))


@run_with(simulate)
async def test_all_orders_are_asked_for_now_and_then_and_vms_left_out_are_held():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    async with host.running():
        await asyncio.sleep(2)
        control_plane.drop("a")
        await asyncio.sleep(700)
    assert control_plane.polls.count(0) >= 3
    assert host.driver.vms["a"].power == "running"
    assert control_plane.vms["a"].state == "running"


@run_with(simulate)
async def test_the_limit_of_the_control_plane_counts_not_the_size_of_the_host():
    control_plane = FakeControlPlane()
    control_plane.limit = HostSize(cpu_millis=1000, memory_bytes=GIB)
    host = AgentHost(control_plane)
    control_plane.order(vm("a"))
    control_plane.order(vm("b"))
    async with host.running():
        await asyncio.sleep(20)
    assert sorted(here.power for here in host.driver.vms.values()) == ["running", "stopped"]
    assert [report.trouble.code for report in control_plane.vms.values() if report.trouble] == ["no_room"]


@run_with(simulate)
async def test_a_guest_that_turned_itself_off_is_noticed_and_started():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane)
    control_plane.order(vm())
    async with host.running(look_s=10.0):
        await asyncio.sleep(2)
        host.driver.vms["a"].power = "stopped"
        await asyncio.sleep(11)
    assert host.driver.vms["a"].runs == 2


@run_with(simulate)
async def test_in_silence_a_vm_that_silence_stops_is_not_started_again():
    control_plane = FakeControlPlane(stop_after_s=10.0)
    host = AgentHost(control_plane)
    control_plane.order(vm("stops", when_silent="stop"))
    control_plane.order(vm("keeps"))
    async with host.running():
        await asyncio.sleep(2)
        control_plane.is_down = True
        await asyncio.sleep(12)
        for here in host.driver.vms.values():
            here.power = "stopped"
        await asyncio.sleep(60)
        assert (host.driver.vms["stops"].power, host.driver.vms["keeps"].power) == ("stopped", "running")
        control_plane.is_down = False
        await asyncio.sleep(60)
        assert host.driver.vms["stops"].power == "running"


@run_with(simulate)
async def test_a_driver_that_hangs_holds_up_its_vm_only_and_not_for_ever():
    control_plane = FakeControlPlane()
    host = AgentHost(control_plane, delays_s={"pause": 10_000.0})
    control_plane.order(vm("hangs"))
    async with host.running(verb_timeout_s=60.0, grace_s=0.0):
        await asyncio.sleep(2)
        control_plane.order(vm("hangs", "paused", 2))
        control_plane.order(vm("b"))
        await asyncio.sleep(5)
        assert control_plane.vms["b"].state == "running"
        await asyncio.sleep(60)
        assert control_plane.vms["hangs"].trouble.code == "driver_timeout"


@run_with(simulate)
async def test_a_sending_that_a_newer_order_overtakes_is_given_up():
    wires, control_plane = FakeWires(), FakeControlPlane()
    host = AgentHost(control_plane, wires=wires, delays_s={"send": 10_000.0})
    control_plane.order(vm())
    async with host.running():
        await asyncio.sleep(2)
        control_plane.order(vm(generation=2, migration=Migration(is_source=True, address="fake://two/a", secret="s")))
        await asyncio.sleep(5)
        assert control_plane.vms["a"].state == "leaving"
        control_plane.order(vm(generation=3))
        await asyncio.sleep(5)
        assert (control_plane.vms["a"].state, control_plane.vms["a"].generation) == ("running", 3)


@run_with(simulate)
async def test_a_hundred_agents_share_one_process_and_one_transport():
    control_plane = FakeControlPlane()
    control_plane.credentials.add("secret-1")
    hosts = [AgentHost(control_plane, str(number)) for number in range(100)]
    stopping = asyncio.Event()
    tasks = [asyncio.get_running_loop().create_task(host.agent().run(stopping)) for host in hosts]
    await asyncio.sleep(2)
    stopping.set()
    await asyncio.gather(*tasks)
    assert len(control_plane.registrations) == 100
