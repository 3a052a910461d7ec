"""A whole agent on a fake host, against a control plane in memory, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.agent.credentials import Identity, MemoryCredentials
from hostler.agent.drivers.fake import FakeDriver, FakeVm, FakeWires, Fault
from hostler.agent.link import Link, RejectedError
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import ORDERS_PATH, REGISTER_PATH, REPORT_PATH, HostSize, Migration, Order
from hostler.agent.process import Agent
from hostler.agent.settings import Settings
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.plane import TOKEN, Plane

GIB = 2**30
SHORTEST_WAIT_S = 1.0  # of all that an agent waits after a failure


class Host:
    """What outlives an agent: its driver, its records, its credential."""

    def __init__(self, plane, name="one", **options):
        self.plane = plane
        self.driver = FakeDriver(name, **options)
        self.manifest = MemoryManifest()
        self.credentials = MemoryCredentials()
        self.runs = 0
        self.lines: list[str] = []
        self.is_watched = False

    def agent(self, token=TOKEN, **settings):
        self.runs += 1
        return Agent(
            Link(self.plane, self.credentials),
            self.driver,
            self.manifest,
            Settings(name="one", **settings),
            boot="boot-1",
            run_id=f"{self.driver.host}-{self.runs}",
            token=token,
            watched_vms=lambda: 64 if self.is_watched else 0,
            clock=SimClock().now,
            rng=random.Random(self.runs),
            tell=self.lines.append,
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


def test_an_agent_joins_carries_out_orders_and_reports_them():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        async with host.running():
            await asyncio.sleep(1)
            plane.order(vm())
            await asyncio.sleep(1)
            assert (plane.vms["a"].state, plane.vms["a"].generation) == ("running", 1)
            plane.order(vm(power="stopped", generation=2))
            await asyncio.sleep(1)
            assert (plane.vms["a"].state, plane.vms["a"].generation) == ("stopped", 2)
            plane.order(vm(power="absent", generation=3))
            await asyncio.sleep(1)
        assert plane.vms == {}
        assert host.driver.log == [("create", "a"), ("start", "a"), ("stop", "a"), ("delete", "a")]
        assert plane.registrations[0].driver == "fake"

    simulate(scenario)


def test_a_quiet_agent_sends_heartbeats_and_nothing_else():
    async def scenario():
        plane = Plane()
        async with Host(plane).running():
            await asyncio.sleep(100)
        assert len(plane.reports) in range(19, 23)
        assert not any(report.vms or report.gone for report in plane.reports)
        assert len(plane.registrations) == 1

    simulate(scenario)


def test_every_message_tells_whether_a_watchdog_works_now():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        async with host.running():
            await asyncio.sleep(10)
            host.is_watched = True
            before = len(plane.reports)
            await asyncio.sleep(10)
            assert {report.is_watched for report in plane.reports[:before]} == {False}
            assert {report.is_watched for report in plane.reports[before:]} == {True}
            plane.wants_resync = True
            await asyncio.sleep(10)
            host.is_watched = False
            before = len(plane.reports)
            await asyncio.sleep(10)
            assert {report.is_watched for report in plane.reports[before:]} == {False}
        assert [message.is_watched for message in plane.registrations] == [False, True]
        assert sum("the watchdog does not work" in line for line in host.lines) == 1

    simulate(scenario)


def test_vms_outlive_the_agent_and_the_next_one_adopts_them():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        async with host.running():
            await asyncio.sleep(2)
        assert host.driver.vms["a"].power == "running"
        async with host.running(token=""):
            await asyncio.sleep(2)
        assert host.driver.log == [("create", "a"), ("start", "a")]
        assert [report.state for report in plane.registrations[1].vms] == ["running"]

    simulate(scenario)


def test_orders_that_the_agent_missed_while_it_was_dead_are_carried_out():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        await host.run_and_kill(2)
        plane.order(vm(restarts=1, generation=2))
        async with host.running():
            await asyncio.sleep(2)
        assert host.driver.vms["a"].runs == 2

    simulate(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_killed_again_and_again_on_a_lossy_network_it_still_ends_as_ordered(seed):
    async def scenario():
        rng = random.Random(seed)
        plane = Plane(seed=seed, loss=0.2)
        faults = [Fault(chance=0.1), Fault(chance=0.1, is_after=True)]
        delays = dict.fromkeys(("create", "start", "stop", "delete", "find"), 0.3)
        host = Host(plane, faults=faults, seed=seed, delays_s=delays)
        host.driver.vms["stranger"] = FakeVm(order=vm("stranger"), power="running", is_ours=False)
        wanted: dict[str, Order] = {}
        for turn in range(8):
            for name in "abcdef":
                before = wanted.get(name, vm(name, generation=0))
                power = rng.choice(["running", "running", "stopped", "absent"])
                wanted[name] = msgspec.structs.replace(before, generation=turn + 1, power=power)
                plane.order(wanted[name])
            await host.run_and_kill(rng.uniform(0, 4))
        host.driver.faults.clear()
        plane.loss = 0.0
        plane.may_tear_down = True
        async with host.running():
            await asyncio.sleep(120)
        for name, order in wanted.items():
            here = host.driver.vms.get(name)
            assert (here.power if here else "absent") == order.power
            assert (plane.vms[name].state if name in plane.vms else "absent") == order.power
        assert plane.unknown == ("stranger",)
        assert host.driver.vms["stranger"].power == "running"

    simulate(scenario, seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_restart_happens_once_wherever_the_agent_is_killed(seed):
    async def scenario():
        plane = Plane()
        host = Host(plane, delays_s={"stop": 0.5, "start": 0.5})
        plane.order(vm())
        await host.run_and_kill(3)
        plane.order(vm(restarts=1))
        await host.run_and_kill(0.13 * seed)
        async with host.running():
            await asyncio.sleep(5)
        assert host.driver.vms["a"].runs == 2
        assert plane.vms["a"].restarts == 1

    simulate(scenario, seed)


def test_a_rejected_agent_ends_and_its_vms_run_on():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        task = asyncio.get_running_loop().create_task(host.agent().run(asyncio.Event()))
        await asyncio.sleep(2)
        plane.credentials.clear()
        with pytest.raises(RejectedError):
            await task
        assert host.driver.vms["a"].power == "running"

    simulate(scenario)


def test_a_wrong_token_is_the_end():
    async def scenario():
        with pytest.raises(RejectedError):
            await Host(Plane()).agent(token="wrong").run(asyncio.Event())

    simulate(scenario)


def test_a_new_credential_replaces_the_old_one():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.new_credential = "secret-2"
        async with host.running():
            await asyncio.sleep(2)
            plane.credentials = {"secret-2"}
            await asyncio.sleep(100)
        assert host.credentials.load() == Identity("host-1", "secret-2")

    simulate(scenario)


def test_while_the_control_plane_is_away_tries_get_rarer_and_then_all_is_told():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        async with host.running():
            await asyncio.sleep(2)
            plane.is_down = True
            await asyncio.sleep(1)
            host.driver.vms["a"].power = "stopped"
            plane.calls.clear()
            await asyncio.sleep(600)
            polls = [at for at, path in plane.calls if path == ORDERS_PATH]
            assert len(polls) in range(10, 30), "every 30 to 39 s"
            plane.is_down = False
            await asyncio.sleep(60)
        assert plane.vms["a"].state == "running"
        assert host.driver.vms["a"].runs == 2, "a guest that turned itself off is started again meanwhile"

    simulate(scenario)


@pytest.mark.parametrize(("stop_after_s", "most_s"), [(0.0, 5.0), (12.0, 4.0), (1e-9, 5.0)])
def test_agent_is_heard_well_before_it_would_be_called_silent(stop_after_s, most_s):
    """A service that comes back hears it within a third of what it told, and 30 % by chance."""

    async def scenario():
        plane = Plane(stop_after_s=stop_after_s)
        async with Host(plane).running():
            await asyncio.sleep(12)
            plane.is_down = True
            plane.calls.clear()
            await asyncio.sleep(600)
        tries = [at for at, path in plane.calls if path == REPORT_PATH]
        pauses = [later - at for at, later in itertools.pairwise(tries)]
        assert max(pauses) <= most_s * 1.3 + 0.1
        assert min(pauses[5:]) >= most_s, "and no more often"

    simulate(scenario)


def test_a_refused_report_leads_to_a_new_registration():
    async def scenario():
        plane = Plane()
        async with Host(plane).running():
            await asyncio.sleep(7)
            plane.refuse_reports = 1
            await asyncio.sleep(20)
            assert len(plane.registrations) == 2
            plane.wants_resync = True
            await asyncio.sleep(20)
        assert len(plane.registrations) == 3
        assert plane.polls.count(0) == 3, "after each of them all orders are asked for"

    simulate(scenario)


@pytest.mark.parametrize("down_s", [3, 100])
def test_after_a_restart_of_the_service_all_goes_on_at_the_first_contact(down_s):
    async def scenario():
        plane = Plane()
        async with Host(plane).running():
            await asyncio.sleep(12)
            plane.is_down = True
            await asyncio.sleep(down_s)
            plane.is_down, plane.refuse_reports = False, 1  # it knows of no registration
            plane.calls.clear()
            await asyncio.sleep(60)
        assert len(plane.registrations) == 2
        first = {path: min(at for at, called in plane.calls if called == path) for _, path in plane.calls}
        contact = first[REPORT_PATH]
        assert first[REGISTER_PATH] - contact < SHORTEST_WAIT_S
        assert any(0 < at - first[REGISTER_PATH] < SHORTEST_WAIT_S for at, path in plane.calls if path == ORDERS_PATH)

    simulate(scenario)


def test_an_agent_whose_reports_are_always_refused_registers_more_and_more_rarely():
    async def scenario():
        plane = Plane()
        async with Host(plane).running():
            await asyncio.sleep(12)
            plane.refuse_reports = 10_000
            await asyncio.sleep(300)
        assert len(plane.registrations) in range(5, 20)

    simulate(scenario)


def test_a_registration_tells_bridges_storages_and_which_protocols_are_spoken():
    async def scenario():
        plane = Plane()
        async with Host(plane).running(bridges=("br0",), storages=("nas",)):
            await asyncio.sleep(1)
        (message,) = plane.registrations
        assert (message.bridges, message.storages, message.protocols) == (("br0",), ("nas",), (1, 2))

    simulate(scenario)


def test_all_orders_are_asked_for_now_and_then_and_vms_left_out_are_held():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        async with host.running():
            await asyncio.sleep(2)
            plane.drop("a")
            await asyncio.sleep(700)
        assert plane.polls.count(0) >= 3
        assert host.driver.vms["a"].power == "running"
        assert plane.vms["a"].state == "running"

    simulate(scenario)


def test_the_limit_of_the_control_plane_counts_not_the_size_of_the_host():
    async def scenario():
        plane = Plane()
        plane.limit = HostSize(cpu_millis=1000, memory_bytes=GIB)
        host = Host(plane)
        plane.order(vm("a"))
        plane.order(vm("b"))
        async with host.running():
            await asyncio.sleep(20)
        assert sorted(here.power for here in host.driver.vms.values()) == ["running", "stopped"]
        assert [report.trouble.code for report in plane.vms.values() if report.trouble] == ["no_room"]

    simulate(scenario)


def test_a_guest_that_turned_itself_off_is_noticed_and_started():
    async def scenario():
        plane = Plane()
        host = Host(plane)
        plane.order(vm())
        async with host.running(look_s=10.0):
            await asyncio.sleep(2)
            host.driver.vms["a"].power = "stopped"
            await asyncio.sleep(11)
        assert host.driver.vms["a"].runs == 2

    simulate(scenario)


def test_in_silence_a_vm_that_silence_stops_is_not_started_again():
    async def scenario():
        plane = Plane(stop_after_s=10.0)
        host = Host(plane)
        plane.order(vm("stops", when_silent="stop"))
        plane.order(vm("keeps"))
        async with host.running():
            await asyncio.sleep(2)
            plane.is_down = True
            await asyncio.sleep(12)
            for here in host.driver.vms.values():
                here.power = "stopped"
            await asyncio.sleep(60)
            assert (host.driver.vms["stops"].power, host.driver.vms["keeps"].power) == ("stopped", "running")
            plane.is_down = False
            await asyncio.sleep(60)
            assert host.driver.vms["stops"].power == "running"

    simulate(scenario)


def test_a_driver_that_hangs_holds_up_its_vm_only_and_not_for_ever():
    async def scenario():
        plane = Plane()
        host = Host(plane, delays_s={"pause": 10_000.0})
        plane.order(vm("hangs"))
        async with host.running(verb_timeout_s=60.0, grace_s=0.0):
            await asyncio.sleep(2)
            plane.order(vm("hangs", "paused", 2))
            plane.order(vm("b"))
            await asyncio.sleep(5)
            assert plane.vms["b"].state == "running"
            await asyncio.sleep(60)
            assert plane.vms["hangs"].trouble.code == "driver_timeout"

    simulate(scenario)


def test_a_sending_that_a_newer_order_overtakes_is_given_up():
    async def scenario():
        wires, plane = FakeWires(), Plane()
        host = Host(plane, wires=wires, delays_s={"send": 10_000.0})
        plane.order(vm())
        async with host.running():
            await asyncio.sleep(2)
            plane.order(vm(generation=2, migration=Migration(is_source=True, address="fake://two/a", secret="s")))
            await asyncio.sleep(5)
            assert plane.vms["a"].state == "leaving"
            plane.order(vm(generation=3))
            await asyncio.sleep(5)
            assert (plane.vms["a"].state, plane.vms["a"].generation) == ("running", 3)

    simulate(scenario)


def test_a_hundred_agents_share_one_process_and_one_transport():
    async def scenario():
        plane = Plane()
        plane.credentials.add("secret-1")
        hosts = [Host(plane, str(number)) for number in range(100)]
        stopping = asyncio.Event()
        tasks = [asyncio.get_running_loop().create_task(host.agent().run(stopping)) for host in hosts]
        await asyncio.sleep(2)
        stopping.set()
        await asyncio.gather(*tasks)
        assert len(plane.registrations) == 100

    simulate(scenario)
