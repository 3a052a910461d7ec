"""One host in a test: the real core on a fake driver, stepped by hand, so that it can crash between any two steps.

A killed agent loses its state; its durable records and the driver's VMs stay, as on a real host.
"""

from __future__ import annotations

from hostler.agent.core.admission import size_of
from hostler.agent.core.decisions import after_outcome, begin, first_state, next_actions, observe, take
from hostler.agent.core.plan import allocations_of, plan
from hostler.agent.core.reports import reports
from hostler.agent.core.state import Action, ActionOutcome, Record
from hostler.agent.driver import DriverError
from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.messages import Orders, VmReport
from hostler.agent.worker import perform

SECOND = 1_000_000_000


def run_now(work):
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class SteppedHost:
    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.now = 0
        self.agent = 0  # how many there were
        self.durable: dict[str, Record] = {}
        self.lanes: dict[str, tuple[Action, ActionOutcome | None]] = {}
        self.restarts_done: dict[str, int] = {}
        run_now(driver.open())
        self.kill()

    def kill(self) -> None:
        """End the agent and start another: all but the disk is lost."""
        self.lanes = {}
        self.agent += 1
        self.state = first_state(run_now(self.driver.size()), self.durable.values())

    def take(self, orders: Orders) -> None:
        self.state = take(self.state, orders)

    def look(self) -> None:
        try:
            found = run_now(self.driver.find())
        except DriverError:
            return
        unavailable = run_now(self.driver.unavailable())
        self.state = observe(self.state, found, unsure=set(self.lanes), unavailable=unavailable)

    async def quiet_find(self):
        faults, self.driver.faults = self.driver.faults, []
        found = await self.driver.find()
        self.driver.faults = faults
        return found

    def actions(self) -> list[Action]:
        return next_actions(self.state, self.now)

    def begin(self, action: Action) -> None:
        self.state = begin(self.state, action)
        self.durable = dict(self.state.records)
        self.lanes[action.vm] = (action, None)

    def do(self, vm: str) -> None:
        """Let the driver act; the agent does not know yet."""
        action, _ = self.lanes[vm]
        self._check(action)
        before = len(self.driver.log)
        outcome = run_now(perform(self.driver, action, grace_s=0.0))
        if action.verb == "restart" and len(self.driver.log) > before:
            self.restarts_done[vm] = self.restarts_done.get(vm, 0) + 1
        self.lanes[vm] = (action, outcome)

    def finish(self, vm: str) -> None:
        action, outcome = self.lanes.pop(vm)
        assert outcome is not None
        self.state = after_outcome(self.state, action, outcome, self.now)

    def step(self) -> bool:
        """Do everything that is to do now; say whether there was anything."""
        self.look()
        actions = self.actions()
        for action in actions:
            self.begin(action)
            self.do(action.vm)
            self.finish(action.vm)
        self.durable = dict(self.state.records)
        return bool(actions)

    def settle(self) -> None:
        """Work until nothing is left to do, waiting out what waits."""
        for vm, (_, outcome) in list(self.lanes.items()):
            if outcome is None:
                self.do(vm)
            self.finish(vm)
        idle = 0
        for _ in range(200):
            idle = 0 if self.step() else idle + 1
            if idle == 3:
                return
            self.now += 61 * SECOND
        raise AssertionError(f"never at rest: {self.actions()}")

    def reports(self) -> dict[str, VmReport]:
        return reports(self.state, plan(self.state, self.now))

    def power(self, vm: str) -> str:
        here = self.driver.vms.get(vm)
        return here.power if here is not None else "absent"

    def is_overcommitted(self) -> bool:
        used, total = allocations_of(self.state).used, size_of(self.state.limit)
        return any(some > most for some, most in zip(used, total, strict=True))

    def _check(self, action: Action) -> None:
        here = self.driver.vms.get(action.vm)
        assert here is None or here.is_ours, f"{action} touches a VM of another owner"
        assert action.order is not None or action.verb == "forget"
        if action.verb == "create":
            assert here is None, f"{action.vm} is created twice"
        if action.verb == "delete":
            assert action.order.power == "absent" or here is None or here.power in ("landing", "left")
