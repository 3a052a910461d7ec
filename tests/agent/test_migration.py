"""A live migration between two agents, with a crash at every arrow: the VM runs on exactly one side in the end."""

from __future__ import annotations

import pytest

from hostler.agent.core.reports import gone
from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.messages import Migration, Order, Orders
from tests.agent.stepped_host import SteppedHost

GIB = 2**30


class MigrationDriver:
    """The control plane's part: prepare the target, tell the source, commit ownership by a newer generation."""

    def __init__(self) -> None:
        wires = FakeWires()
        self.source, self.target = (
            SteppedHost(FakeDriver("one", wires=wires)),
            SteppedHost(FakeDriver("two", wires=wires)),
        )
        self.orders: dict[str, dict[str, Order]] = {"source": {}, "target": {}}
        self.version = 0
        self.is_committed = self.is_aborted = False
        self.most_running = 0
        self._order("source", generation=1)
        for _ in range(3):
            self.deliver()
            self.source.step()
        self._order("target", generation=2, migration=Migration(is_source=False))

    def steps(self):
        """Yield after every step that a crash could follow."""
        for _ in range(12):
            self.deliver()
            yield
            for host in (self.target, self.source):
                host.look()
                yield
                for action in host.actions():
                    host.begin(action)
                    yield
                    if action.vm in host.lanes:
                        host.do(action.vm)
                        self._count()
                        yield
                    if action.vm in host.lanes:
                        host.finish(action.vm)
                        yield
            self.advance()
            yield

    def advance(self) -> None:
        """Read the reports and order what comes next."""
        there = self.target.reports().get("a")
        if self.is_aborted and there is None and any(one.vm == "a" for one in gone(self.target.state)):
            self._order("source", generation=4)
        if self.is_committed or self.is_aborted or there is None:
            return
        if there.state == "landing" and there.landing_address:
            migration = Migration(is_source=True, address=there.landing_address, secret=there.landing_secret)
            self._order("source", generation=2, migration=migration)
        if there.state == "running":
            self.is_committed = True
            self._order("target", generation=3)
            self._order("source", generation=3, power="absent")

    def abort(self) -> None:
        """Give up: first the target lets go, then the source keeps the VM by a newer generation."""
        if not self.is_committed:
            self.is_aborted = True
            self._order("target", generation=3, power="absent")

    def deliver(self) -> None:
        self.version += 1
        for name, host in (("source", self.source), ("target", self.target)):
            orders = tuple(self.orders[name].values())
            host.take(Orders(version=self.version, is_full=True, orders=orders))

    def finish(self) -> None:
        for _ in range(8):
            self.deliver()
            for host in (self.target, self.source):
                host.settle()
                self._count()
            self.advance()

    def powers(self) -> tuple[str, str]:
        return self.source.power("a"), self.target.power("a")

    def _order(self, side: str, *, generation: int, power="running", migration=None) -> None:
        self.orders[side]["a"] = Order(
            vm="a", generation=generation, power=power, memory_bytes=GIB, migration=migration
        )

    def _count(self) -> None:
        self.most_running = max(self.most_running, self.powers().count("running"))


def test_a_vm_moves_without_ever_stopping_or_running_twice():
    mover = MigrationDriver()
    for _ in mover.steps():
        pass
    assert mover.powers() == ("absent", "running")
    assert mover.target.driver.vms["a"].runs == 1, "it was never started again"
    assert mover.most_running == 1
    assert mover.source.state.records["a"].is_gone


ARROWS = range(57)


def test_there_are_as_many_arrows_as_are_tried():
    assert sum(1 for _ in MigrationDriver().steps()) == len(ARROWS)


@pytest.mark.parametrize("victims", ["source", "target", "both"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_a_crash_at_any_arrow_ends_with_the_vm_on_one_side(arrow, victims):
    mover = MigrationDriver()
    for number, _ in enumerate(mover.steps()):
        if number == arrow:
            for name in ("source", "target"):
                if victims in (name, "both"):
                    getattr(mover, name).kill()
    mover.finish()
    assert mover.powers() == ("absent", "running")
    assert mover.target.driver.vms["a"].runs == 1
    assert mover.most_running == 1


@pytest.mark.parametrize("crash", [False, True], ids=["", "and both agents crash"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_an_abort_at_any_arrow_ends_with_the_vm_on_one_side(arrow, crash):
    mover = MigrationDriver()
    for number, _ in enumerate(mover.steps()):
        if number == arrow:
            mover.abort()
            if crash:
                mover.source.kill()
                mover.target.kill()
    mover.finish()
    assert mover.powers() == (("absent", "running") if mover.is_committed else ("running", "absent"))
    assert mover.most_running == 1


def test_a_source_that_sent_its_vm_does_not_start_it_again_on_its_own():
    mover = MigrationDriver()
    for _ in mover.steps():
        if mover.powers() == ("left", "running"):
            break
    mover.is_aborted = True  # nobody commits: the control plane is away
    mover.source.kill()
    mover.finish()
    assert mover.powers() == ("left", "running")
