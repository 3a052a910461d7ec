"""Whatever users, agents, the network and death do, in any order: books, engine and hosts agree in the end."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hostler.agent.drivers.fake import Fault
from hostler.agent.messages import HostSize
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.control.vms.state import Vm
from hostler.errors import ConflictError, InputError
from tests.agent.stepped_host import SECOND
from tests.control.vms.fleet_model import GIB, SMALL, FleetModel
from tests.random_examples import count_examples

SIZES = [SMALL, SMALL, HostSize(cpu_millis=6000, memory_bytes=6 * GIB, disk_bytes=20 * GIB)]
LOCAL = [DiskSpec(size="5Gi")]
STRATEGIES = ["", "least_loaded", "best_fit", "round_robin", "random", "spread", "pack", "first_fit"]
KINDS = [
    "start", "start", "stop", "pause", "resume", "restart", "resize", "resize", "migrate", "migrate", "migrate",
    "migrate to", "delete",
]  # fmt: skip

WEIGHTS = {
    "create": 6,
    "wish": 14,
    "decide": 16,
    "step": 10,
    "carry_out": 4,
    "send_orders": 8,
    "deliver_orders": 12,
    "work": 16,
    "begin": 6,
    "do": 6,
    "finish": 6,
    "report": 12,
    "deliver": 14,
    "exchange": 20,
    "kill": 2,
    "silence": 1,
    "hear": 3,
    "die": 1,
    "break_something": 2,
    "come_back": 1,
}
FACES = list(WEIGHTS)


def some_spec(draw) -> VmSpec:
    disks = draw.choice([[], [], LOCAL, LOCAL, [DiskSpec(size="5Gi", storage="shared")]])
    is_local = any(not disk.storage for disk in disks)
    return VmSpec(
        cpu=str(draw.randint(1, 3)),
        memory=f"{draw.randint(1, 3)}Gi",
        disks=disks,
        priority=draw.choice([0, 0, 0, 5, 10]),
        strategy=draw.choice(STRATEGIES),
        reserve=draw.random() < 0.2,
        when_lost="restart" if not is_local and draw.random() < 0.6 else "keep",
    )


class Walk:
    """Steps through a world, by what ``draw`` chooses."""

    weights = WEIGHTS

    def __init__(self, draw) -> None:
        self.draw = draw
        self.fleet = FleetModel(SIZES)
        self.made = 0

    def go(self, steps: int) -> None:
        for _ in range(steps):
            getattr(self, self.draw.choices(list(self.weights), list(self.weights.values()))[0])()
            self.fleet.check()

    def host(self):
        return self.draw.choice(list(self.fleet.hosts.values()))

    def create(self) -> None:
        if sum(not vm.is_gone for vm in self.fleet.vms.values()) < 7:
            self.made += 1
            self.fleet.create(f"vm{self.made}", some_spec(self.draw), fails_unplaced=self.draw.random() < 0.1)

    def wish(self) -> None:
        alive = [vm for vm in self.fleet.vms.values() if not vm.is_gone]
        if not alive:
            return
        vm = self.draw.choice(alive)
        kind = self.draw.choice(KINDS if vm.moving is None else ["cancel_move", "delete", *KINDS])
        try:
            if kind == "resize":
                fresh = some_spec(self.draw)
                lost = fresh.when_lost if vm.spec.is_movable else "keep"
                spec = msgspec.structs.replace(fresh, disks=vm.spec.disks, when_lost=lost)
                self.fleet.wish(vm.id, desired_state.resize, spec)
            elif kind == "migrate to":
                self.fleet.wish(vm.id, desired_state.migrate, self.host().name)
            else:
                self.fleet.wish(vm.id, getattr(desired_state, kind))
        except (ConflictError, InputError):
            assert self.fleet.vms[vm.id] is vm

    def decide(self) -> None:
        self.fleet.decide()

    def step(self) -> None:
        self.fleet.step()

    def carry_out(self) -> None:
        self.fleet.carry_out()

    def send_orders(self) -> None:
        self.fleet.send_orders(self.host())

    def deliver_orders(self) -> None:
        host = self.host()
        if host.orders_in_flight:
            self.fleet.deliver_orders(host, self.draw.randrange(-min(3, len(host.orders_in_flight)), 0))

    def work(self) -> None:
        host = self.alive()
        if host is not None and not host.stepped.lanes:
            host.stepped.now += self.draw.randint(0, 61) * SECOND
            host.stepped.step()

    def alive(self):
        host = self.host()
        return None if host.is_dead else host

    def begin(self) -> None:
        host = self.alive()
        if host is not None and host.stepped.actions():
            host.stepped.begin(self.draw.choice(host.stepped.actions()))

    def do(self) -> None:
        host = self.alive()
        waiting = [vm for vm, (_, done) in host.stepped.lanes.items() if done is None] if host is not None else []
        if waiting:
            host.stepped.do(self.draw.choice(waiting))

    def finish(self) -> None:
        host = self.alive()
        done = [vm for vm, (_, done) in host.stepped.lanes.items() if done is not None] if host is not None else []
        if done:
            host.stepped.finish(self.draw.choice(done))

    def report(self) -> None:
        host = self.alive()
        if host is not None and not host.reports_in_flight:
            self.fleet.send_report(host)

    def deliver(self) -> None:
        host = self.alive()
        if host is not None:
            self.fleet.deliver_report(host, is_repeated=self.draw.random() < 0.2)

    def exchange(self) -> None:
        host = self.alive()
        if host is not None and not host.stepped.lanes:
            self.fleet.exchange(host)

    def kill(self) -> None:
        host = self.alive()
        if host is not None:
            host.stepped.kill()
            self.fleet.register(host)

    def break_something(self) -> None:
        kind = self.draw.choice(["transient", "transient", "blocked", "permanent"])
        verb = self.draw.choice(["", "create", "start", "stop", "resize", "delete", "send", "await_landing"])
        fault = Fault(kind=kind, verb=verb, times=self.draw.randint(1, 2), is_after=self.draw.random() < 0.3)
        self.host().stepped.driver.faults.append(fault)

    def silence(self) -> None:
        self.fleet.silence(self.host())

    def hear(self) -> None:
        self.fleet.hear(self.host())

    def die(self) -> None:
        host = self.host()
        if not host.is_dead and not any(other.is_dead for other in self.fleet.hosts.values()):
            self.fleet.prove_dead(host)

    def come_back(self) -> None:
        for host in self.fleet.hosts.values():
            if host.is_dead:
                self.fleet.return_empty(host)


def _has_disk_on(vm: Vm, host: str) -> bool:
    is_here = vm.home is not None and vm.home.host == host and vm.reported in ("running", "paused", "stopped")
    return is_here and not vm.spec.is_movable and vm.power != "absent"


class WalkOfTheForgetful(Walk):
    """A walk on which hosts come back empty, too."""

    weights = WEIGHTS | {"forget": 1}

    def forget(self) -> None:
        host = self.alive()
        if host is None:
            return
        owners = [vm.id for vm in self.fleet.vms.values() if _has_disk_on(vm, host.id)]
        self.fleet.lose_everything(host)
        assert all(self.fleet.vms[vm].is_lost for vm in owners), "nobody gets an empty disk in silence"


def walk_and_rest(seed: int, rounds: int, kind: type[Walk] = Walk) -> Walk:
    walk = kind(random.Random(seed))
    for _ in range(rounds):
        walk.go(120)
        walk.fleet.come_to_rest()
        walk.fleet.check_rest()
    return walk


@pytest.mark.parametrize("seed", range(80))
def test_a_long_walk_ends_with_everything_as_wanted(seed):
    walk_and_rest(seed, 4)


@pytest.mark.parametrize("seed", range(20))
def test_random_walk_with_emptied_hosts_reaches_desired_state(seed):
    walk_and_rest(seed, 3, WalkOfTheForgetful)


@pytest.mark.parametrize("seed", [1222, 1406, 1430, 1444, 3997])
def test_walks_that_went_astray_once(seed):
    walk_and_rest(seed, 3)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 6000, 500))
def test_very_many_walks_end_with_everything_as_wanted(first):
    for seed in range(first, first + 500):
        walk_and_rest(seed, 3)


def test_walks_meet_everything_that_can_happen():
    seen: Counter[str] = Counter()
    for seed in range(200, 240):
        walk = walk_and_rest(seed, 2)
        seen.update(walk.fleet.met)
    assert set(seen) >= {
        "arrived", "given up", "evicted", "grown", "shrunk", "at rest", "lost", "restarted elsewhere", "gone",
        "not placed", "bind failed", "unknown", "moved while stopped",
    }, seen  # fmt: skip


class Choices:
    """The choices of a walk, made by hypothesis."""

    def __init__(self) -> None:
        self.data: Any = None

    def choice(self, options):
        return self.data.draw(st.sampled_from(options))

    def random(self) -> float:
        return self.data.draw(st.sampled_from([0.05, 0.15, 0.5, 0.9]))

    def randint(self, least: int, most: int) -> int:
        return self.data.draw(st.integers(least, most))

    def randrange(self, start: int, stop: int) -> int:
        return self.data.draw(st.integers(start, stop - 1))


class VmsUnderFire(RuleBasedStateMachine):
    """The same steps, chosen and shrunk by hypothesis."""

    @initialize()
    def begin(self):
        self.walk = Walk(Choices())

    @rule(data=st.data(), names=st.lists(st.sampled_from(FACES), min_size=1, max_size=6))
    def walk_on(self, data, names):
        self.walk.draw.data = data
        for name in names:
            getattr(self.walk, name)()
            self.walk.fleet.check()

    @rule()
    def let_everything_happen_for_a_while(self):
        self.walk.fleet.run(2)

    @rule()
    def come_to_rest(self):
        self.walk.fleet.come_to_rest()
        self.walk.fleet.check_rest()


TestVmsUnderFire = VmsUnderFire.TestCase
TestVmsUnderFire.settings = settings(max_examples=count_examples(200), stateful_step_count=40, deadline=None)
