"""A VM that is blocked is tried again when it is time to look at the host: never in a burst, and without many words."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link
from hostler.agent.drivers.fake import FakeDriver, Fault
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import Order
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.agent.worker import RepeatedLines
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane
from tests.recorded_log import recorded_log

LOOK_S = 10


class StartCountingDriver(FakeDriver):
    """Counts the tries to start each VM; too many end the test rather than fill the time."""

    def __init__(self, faults):
        super().__init__(faults=faults)
        self.tries: Counter[str] = Counter()

    async def start(self, vm):
        self.tries[vm] += 1
        if self.tries[vm] > 1000:
            self.faults.clear()
        await super().start(vm)


def order(vm, generation=1):
    return Order(vm=vm, generation=generation, power="running", memory_bytes=2**28)


def lived(driver, vms, looks, *, each_quarter=lambda control_plane, number: None):
    """Let an agent live for so many looks with orders to run these VMs; return what it told."""
    lines: list[str] = []

    async def scenario():
        control_plane, stopping = FakeControlPlane(), asyncio.Event()
        for vm in vms:
            control_plane.order(order(vm))
        agent = Agent(
            Link(control_plane, MemoryCredentials()),
            driver,
            MemoryManifest(),
            AgentSettings(name="one", look_s=LOOK_S),
            boot="b",
            run_id="r",
            token=TOKEN,
            clock=SimClock().now,
            rng=random.Random(1),
            log=recorded_log(lines),
        )
        task = asyncio.get_running_loop().create_task(agent.run(stopping))
        for number in range(4 * looks):
            await asyncio.sleep(LOOK_S / 4)
            each_quarter(control_plane, number)
        stopping.set()
        await task

    run_simulation(scenario, 1)
    return lines


def test_a_blocked_vm_is_tried_once_per_look():
    driver = StartCountingDriver([Fault(kind="blocked", verb="start")])
    lived(driver, ["a"], 20)
    assert 15 <= driver.tries["a"] <= 22


def test_blocked_vms_do_not_wake_each_other():
    driver = StartCountingDriver([Fault(kind="blocked", verb="start")])
    lived(driver, ["a", "b", "c"], 20)
    assert all(15 <= driver.tries[vm] <= 22 for vm in "abc"), driver.tries


def test_failures_of_others_do_not_put_off_what_is_blocked():
    driver = StartCountingDriver([Fault(kind="blocked", verb="start", vm="a"), Fault(verb="start", vm="b")])
    lived(
        driver, ["a", "b"], 20, each_quarter=lambda control_plane, number: control_plane.order(order("b", 2 + number))
    )
    assert driver.tries["b"] > 60, "something failed between any two looks"
    assert 15 <= driver.tries["a"] <= 22


def test_a_blocked_vm_runs_when_what_was_in_its_way_is_gone():
    driver = StartCountingDriver([Fault(kind="blocked", verb="start", times=3)])
    lived(driver, ["a"], 6)
    assert driver.vms["a"].power == "running"
    assert driver.tries["a"] == 4


def test_a_trouble_that_lasts_is_reported_ever_more_seldom_with_a_count():
    driver = StartCountingDriver([Fault(kind="blocked", verb="start")])
    told = [line for line in lived(driver, ["a"], 20) if line.startswith("start of a")]
    assert len(told) == 5, told
    assert told[-1] == f"{told[0]} (16 times by now)"


def test_another_trouble_and_one_after_a_success_are_told_at_once():
    repeats = RepeatedLines()
    said = [repeats.worth_saying("a", line) for line in ("x", "x", "x", "y", "x")]
    assert said == ["x", "x (2 times by now)", "", "y", "x"]
    repeats.forget("a")
    assert repeats.worth_saying("a", "x") == "x"
    assert repeats.worth_saying("b", "x") == "x"
