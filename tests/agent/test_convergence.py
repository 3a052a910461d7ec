"""Whatever happens on the way (crashes anywhere, faults, lost, repeated and late orders), a host ends as ordered."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hostler.agent.core.decisions import after_registration, observe
from hostler.agent.drivers.fake import FakeDriver, FakeVm, Fault
from hostler.agent.messages import HostSize, Order, Orders
from tests.agent.stepped_host import SECOND, SteppedHost, run_now
from tests.random_examples import count_examples

GIB = 2**30
NAMES = [f"vm{number}" for number in range(6)]
POWERS = ["running", "running", "stopped", "paused", "absent"]
SIZE = HostSize(cpu_millis=6000, memory_bytes=6 * GIB)


class HostUnderFire(RuleBasedStateMachine):
    """``wanted`` is what the control plane orders; ``sent`` are all messages of it, to be met again in any order."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed):
        self.driver = FakeDriver(size=SIZE, seed=seed)
        stranger = Order(vm="stranger", generation=0, power="running", memory_bytes=GIB)
        self.driver.vms["stranger"] = FakeVm(order=stranger, power="running", is_ours=False)
        self.driver.vms["orphan"] = FakeVm(order=stranger, power="stopped")
        self.host = SteppedHost(self.driver)
        self.wanted: dict[str, Order] = {}
        self.agent, self.known = self.host.agent, {}
        self.version = 0
        self.sent: list[Orders] = []
        self.restarts_ordered = dict.fromkeys(NAMES, 0)
        self.runs_before_restart: dict[str, int] = {}
        self.deliver_everything(bulk=False)
        for number, vm in enumerate(NAMES):
            self.order(vm, "running", number % 3 + 1, is_lost=False)
        self.look()

    @rule(vm=st.sampled_from(NAMES), power=st.sampled_from(POWERS), gib=st.integers(1, 3), is_lost=st.booleans())
    def order(self, vm, power, gib, is_lost):
        before = self.wanted.get(vm)
        generation, restarts = (before.generation + 1, before.restarts) if before else (1, 0)
        self.wanted[vm] = Order(
            vm=vm,
            generation=generation,
            power=power,
            memory_bytes=gib * GIB,
            cpu_millis=gib * 1000,
            restarts=restarts,
        )
        if power in ("stopped", "absent"):
            self.runs_before_restart.pop(vm, None)
        self._send(Orders(version=self._next(), is_full=False, orders=(self.wanted[vm],)), is_lost=is_lost)

    @precondition(lambda self: any(order.power == "running" for order in self.wanted.values()))
    @rule(data=st.data())
    def restart(self, data):
        vm = data.draw(st.sampled_from([vm for vm, order in self.wanted.items() if order.power == "running"]))
        order = self.wanted[vm]
        self.wanted[vm] = msgspec.structs.replace(
            order, restarts=order.restarts + 1, generation=order.generation + data.draw(st.integers(0, 1))
        )
        self.restarts_ordered[vm] += 1
        here = self.driver.vms.get(vm)
        if here is not None and here.power == "running" and vm in self.host.durable:
            self.runs_before_restart[vm] = here.runs
        self._send(Orders(version=self._next(), is_full=False, orders=(self.wanted[vm],)))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def deliver_some_message_again_or_late(self, data):
        self.host.take(data.draw(st.sampled_from(self.sent)))

    @rule(bulk=st.booleans())
    def deliver_everything(self, bulk):
        orders = tuple(self.wanted.values())
        self._send(Orders(version=self._next(), is_full=True, orders=orders, allows_bulk_teardown=bulk))

    @rule()
    def look(self):
        self.host.look()

    @precondition(lambda self: self.host.actions())
    @rule(data=st.data())
    def begin_an_action(self, data):
        self.host.begin(data.draw(st.sampled_from(self.host.actions())))

    @precondition(lambda self: any(outcome is None for _, outcome in self.host.lanes.values()))
    @rule(data=st.data())
    def let_the_driver_act(self, data):
        self.host.do(data.draw(st.sampled_from([vm for vm, (_, done) in self.host.lanes.items() if done is None])))

    @precondition(lambda self: any(outcome is not None for _, outcome in self.host.lanes.values()))
    @rule(data=st.data())
    def learn_what_came_of_it(self, data):
        self.host.finish(data.draw(st.sampled_from([vm for vm, (_, done) in self.host.lanes.items() if done])))

    @rule()
    def work_for_a_while(self):
        self.host.step()

    @rule()
    def look_in_the_middle_of_things(self):
        """A look begins, everything under way ends, and the look is reported."""
        found, unsure = run_now(self.host.quiet_find()), set(self.host.lanes)
        for vm, (_, done) in list(self.host.lanes.items()):
            if done is None:
                self.host.do(vm)
            self.host.finish(vm)
        self.host.state = observe(self.host.state, found, unsure=unsure)

    @rule()
    def begin_all_that_may_begin(self):
        for action in self.host.actions():
            self.host.begin(action)

    @rule()
    def let_everything_happen_without_a_look(self):
        for _ in range(3):
            self.begin_all_that_may_begin()
            for vm, (_, done) in list(self.host.lanes.items()):
                if done is None:
                    self.host.do(vm)
            self.begin_all_that_may_begin()  # with what is done and not known to be
            for vm, (_, done) in list(self.host.lanes.items()):
                if done is None:
                    self.host.do(vm)
                self.host.finish(vm)
            self.host.now += 2 * SECOND

    @rule()
    def crash(self):
        self.host.kill()

    @rule()
    def register_anew(self):
        self.host.state = after_registration(self.host.state, SIZE)

    @rule(seconds=st.integers(1, 70))
    def wait(self, seconds):
        self.host.now += seconds * SECOND

    @rule(
        verb=st.sampled_from(["", "", "create", "start", "stop", "resize", "delete"]),
        kind=st.sampled_from(["transient", "permanent", "blocked"]),
        is_after=st.booleans(),
        times=st.integers(1, 3),
    )
    def break_something(self, verb, kind, is_after, times):
        self.driver.faults.append(Fault(verb=verb, kind=kind, is_after=is_after, times=times, chance=0.7))

    @precondition(lambda self: any(vm.power == "running" and vm.is_ours for vm in self.driver.vms.values()))
    @rule(data=st.data())
    def a_guest_turns_itself_off(self, data):
        running = [vm for vm, here in self.driver.vms.items() if here.is_ours and here.power == "running"]
        self.driver.vms[data.draw(st.sampled_from(running))].power = "stopped"

    @rule()
    def come_to_rest(self):
        self.driver.faults.clear()
        for vm, setback in list(self.host.state.setbacks.items()):
            if setback.trouble.kind == "permanent" and vm in self.wanted:
                order = self.wanted[vm]
                self.wanted[vm] = msgspec.structs.replace(order, generation=order.generation + 1)
        self.deliver_everything(bulk=True)
        self.host.settle()
        reports = self.host.reports()
        for vm, order in self.wanted.items():
            report = reports.get(vm)
            if report is not None and report.trouble is not None:
                assert report.trouble.code in ("no_room", "driver_refused"), report
                continue
            assert self.host.power(vm) == order.power, (order, report)
            assert order.power == "absent" or report.generation == order.generation
            here = self.driver.vms.get(vm)
            if here is not None:
                assert here.order.memory_bytes == order.memory_bytes
            if order.power == "running" and vm in self.runs_before_restart:
                assert here.runs > self.runs_before_restart.pop(vm), "an ordered restart did not happen"

    @invariant()
    def nobody_is_restarted_more_often_than_ordered(self):
        if hasattr(self, "host"):
            for vm, done in self.host.restarts_done.items():
                assert done <= self.restarts_ordered[vm], vm

    @invariant()
    def no_older_order_replaces_a_newer_one(self):
        if hasattr(self, "host"):
            known = {vm: (order.generation, order.restarts) for vm, order in self.host.state.orders.items()}
            if self.host.agent != self.agent:
                self.agent, self.known = self.host.agent, {}
            assert all(age >= self.known.get(vm, age) for vm, age in known.items())
            self.known = known  # one that a full list left out starts over

    @invariant()
    def strangers_are_left_alone(self):
        if hasattr(self, "host"):
            assert self.driver.vms["stranger"].power == "running"
            assert "orphan" in self.driver.vms
            assert not {vm for _, vm in self.driver.log} & {"stranger", "orphan"}

    @invariant()
    def the_host_is_never_overcommitted(self):
        if hasattr(self, "host"):
            alive = [here for here in self.driver.vms.values() if here.power in ("running", "paused")]
            assert sum(here.order.memory_bytes for here in alive) <= SIZE.memory_bytes
            assert sum(here.order.cpu_millis for here in alive) <= SIZE.cpu_millis

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _send(self, orders: Orders, *, is_lost: bool = False) -> None:
        self.sent.append(orders)
        if not is_lost:
            self.host.take(orders)


TestHostUnderFire = HostUnderFire.TestCase
TestHostUnderFire.settings = settings(max_examples=count_examples(250), stateful_step_count=50, deadline=None)
