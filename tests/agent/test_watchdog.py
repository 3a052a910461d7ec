"""The watchdog: when silence lasts too long, those VMs are stopped whose order says so, and no others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hostler.agent.core.state import Record
from hostler.agent.driver import ObservedVm
from hostler.agent.drivers.fake import FakeDriver, FakeVm, Fault
from hostler.agent.manifest import FileManifest
from hostler.agent.messages import Order
from hostler.agent.watchdog.deadlines import END_S, FIND_S, KILL_S, LOOK_S, NOTICE_S, POLITE_S, PROOF_S, REAP_S
from hostler.agent.watchdog.watchdog import LeaseFile, Watchdog, WatchdogLease, due
from hostler.control.fleet.times import FleetTimes

SECOND = 1_000_000_000
RECORDS = [Record(vm="stops", when_silent="stop"), Record(vm="keeps")]
RUNNING = [
    ObservedVm(vm="stops", power="running"),
    ObservedVm(vm="keeps", power="running"),
    ObservedVm(vm="other", power="running"),
]


def outcome(look):
    return look.stopped, look.failed


def lease(stop_after_s=10.0, boot="now"):
    return WatchdogLease(boot=boot, renewed_at=100 * SECOND, stop_after_s=stop_after_s)


@pytest.mark.parametrize(
    ("held", "age_s", "stopped"),
    [
        (lease(), 9, []),
        (lease(), 10, ["stops"]),
        (lease(), 10_000, ["stops"]),
        (lease(stop_after_s=0), 10_000, []),
        (lease(boot="earlier"), 0, ["stops"]),
        (None, 10_000, []),
    ],
    ids=["fresh", "just too old", "old", "never", "of another boot", "never heard of"],
)
def test_vms_are_stopped_when_the_lease_is_too_old(held, age_s, stopped):
    assert due(held, RECORDS, RUNNING, "now", (100 + age_s) * SECOND) == stopped


@pytest.mark.parametrize("content", [b"", b'{"boot": "no'], ids=["empty", "cut off"])
def test_a_lease_that_a_power_cut_has_damaged_is_as_old_as_can_be(tmp_path, content):
    (tmp_path / "lease").write_bytes(content)
    assert due(LeaseFile(tmp_path / "lease").read(), RECORDS, RUNNING, "now", 0) == ["stops"]


@pytest.mark.parametrize(
    ("vm", "is_due"),
    [
        (ObservedVm(vm="stops", power="running"), True),
        (ObservedVm(vm="stops", power="paused"), True),
        (ObservedVm(vm="stops", power="landing"), True),
        (ObservedVm(vm="stops", power="stopped"), False),
        (ObservedVm(vm="stops", power="left"), False),
        (ObservedVm(vm="stops", power="running", is_ours=False), False),
        (ObservedVm(vm="unheard-of", power="running"), False),
    ],
)
def test_only_what_runs_here_and_is_ours_is_stopped(vm, is_due):
    assert bool(due(lease(), RECORDS, [vm], "now", 10**15)) == is_due


async def test_it_stops_what_is_due_and_tries_again_what_failed(tmp_path):
    driver = FakeDriver(faults=[Fault(verb="stop", times=1)])
    for name in ("stops", "keeps"):
        driver.vms[name] = FakeVm(order=Order(vm=name, generation=1, power="running"), power="running")
    manifest, file = FileManifest(tmp_path), LeaseFile(tmp_path / "lease")
    await manifest.load()
    await manifest.save(RECORDS, ())
    now = [0]
    dog = Watchdog(driver, manifest, file, boot="now", clock=lambda: now[0], find_s=60.0)
    assert outcome(await dog.look()) == ((), ())
    file.write(WatchdogLease(boot="now", renewed_at=0, stop_after_s=10.0))
    assert outcome(await dog.look()) == ((), ())
    now[0] = 10 * SECOND
    first = await dog.look()
    assert (first.stopped, len(first.failed)) == ((), 1), "the first try fails"
    assert outcome(await dog.look()) == (("stops",), ())
    assert outcome(await dog.look()) == ((), ())
    assert driver.vms["keeps"].power == "running"


class WatchedHost:
    """A host with VMs that silence stops, its files, and a clock that the test moves."""

    def __init__(self, folder, driver, vms):
        self.driver, self.now = driver, 0
        self.manifest, self.file = FileManifest(folder / "records"), LeaseFile(folder / "lease")
        self.records = [Record(vm=vm, when_silent="stop") for vm in vms]
        for vm in vms:
            driver.vms[vm] = FakeVm(order=Order(vm=vm, generation=1, power="running"), power="running")
        self.dog = Watchdog(driver, self.manifest, self.file, boot="now", clock=lambda: self.now, find_s=60.0)

    async def begin(self, stop_after_s=10.0):
        await self.manifest.load()
        await self.manifest.save(self.records, ())
        self.file.write(WatchdogLease(boot="now", renewed_at=0, stop_after_s=stop_after_s))

    def running(self):
        return {vm for vm, here in self.driver.vms.items() if here.power == "running"}


class Together(FakeDriver):
    """Stops a VM only while all others are being stopped, too; notes how long VMs may take to close their files."""

    def __init__(self):
        super().__init__()
        self.stopping, self.polite_s = 0, []

    async def halt(self, vms, *, polite_s, reap_s):
        self.polite_s.append(polite_s)
        self.expected, self.all_at_once = len(vms), asyncio.Event()
        return await super().halt(vms, polite_s=polite_s, reap_s=reap_s)

    async def stop(self, vm, *, grace_s):
        self.stopping += 1
        if self.stopping == self.expected:
            self.all_at_once.set()
        async with asyncio.timeout(60):
            await self.all_at_once.wait()
        await super().stop(vm, grace_s=grace_s)


async def test_twenty_vms_are_stopped_together_and_not_one_by_one(tmp_path):
    host = WatchedHost(tmp_path, Together(), [f"vm-{number}" for number in range(20)])
    await host.begin()
    host.now = 10 * SECOND
    look = await host.dog.look()
    assert (len(look.stopped), look.failed, host.running()) == (20, (), set())


@pytest.mark.parametrize(
    ("late_s", "polite_s"),
    [(0.0, POLITE_S), (NOTICE_S, POLITE_S), (KILL_S - 0.25, 0.25), (KILL_S, 0.0), (3600.0, 0.0)],
    ids=["at once", "as late as planned", "later", "at the deadline", "the host was suspended"],
)
async def test_sigkill_comes_at_its_time_however_late_the_look_is(late_s, polite_s, tmp_path):
    host = WatchedHost(tmp_path, Together(), ["a"])
    await host.begin()
    host.now = int((10 + late_s) * SECOND)
    await host.dog.look()
    assert host.driver.polite_s == pytest.approx([polite_s])


def test_deadlines_follow_from_each_other():
    assert FIND_S + LOOK_S + FIND_S <= NOTICE_S
    assert NOTICE_S + POLITE_S <= KILL_S
    assert KILL_S + REAP_S <= END_S < PROOF_S == FleetTimes().margin_s


class BrokenLater(FakeDriver):
    """Finds its VMs at first; then its look raises anything."""

    error: Exception | None = None

    async def find(self):
        if self.error is not None:
            raise self.error
        return await super().find()


@pytest.mark.parametrize("error", [ValueError("digits"), OSError(5, "i/o"), MemoryError(), RuntimeError("bug")])
async def test_vms_are_stopped_also_if_they_cannot_be_found_just_then(error, tmp_path):
    host = WatchedHost(tmp_path, BrokenLater(), ["a", "b"])
    await host.begin()
    assert (await host.dog.look()).failed == ()
    host.driver.error = error
    host.now = 9 * SECOND
    assert (await host.dog.look()).failed, "it is reported before it is needed"
    host.now = 10 * SECOND
    look = await host.dog.look()
    assert (look.stopped, len(look.failed), host.running()) == (("a", "b"), 1, set())


class Stubborn(FakeDriver):
    """One VM does not end, whatever is done to it."""

    async def halt(self, vms, *, polite_s, reap_s):
        ended = [vm for vm in vms if vm != "stuck"]
        failed = await super().halt(ended, polite_s=polite_s, reap_s=reap_s)
        return failed | ({"stuck": "process 7 survives SIGKILL"} if "stuck" in vms else {})


async def test_vm_that_does_not_end_is_never_reported_as_stopped(tmp_path):
    host = WatchedHost(tmp_path, Stubborn(), ["a", "stuck"])
    await host.begin()
    host.now = 10 * SECOND
    first = await host.dog.look()
    assert first.stopped == ("a",)
    assert first.failed == ("process 7 survives SIGKILL",)
    again = await host.dog.look()
    assert (again.stopped, again.failed) == ((), first.failed), "it goes on trying"


class HangingDriver(FakeDriver):
    """Finds its VMs once; after that each look hangs in a thread, as one at a process that the kernel keeps."""

    def __init__(self):
        super().__init__()
        self.looks, self.ends = 0, threading.Event()

    async def find_running(self):
        self.looks += 1
        if self.looks > 1:
            await asyncio.to_thread(self.ends.wait, 60)
        return await super().find_running()


async def test_looks_that_hang_do_not_keep_the_lease_from_being_read(tmp_path):
    """The agent renews it before each look: a healthy host, so no VM is stopped."""

    driver = HangingDriver()
    host = WatchedHost(tmp_path, driver, ["a"])
    host.dog = Watchdog(driver, host.manifest, host.file, boot="now", clock=lambda: host.now, find_s=0.1)
    await host.begin()
    try:
        for number in range(60):
            host.now = number * SECOND
            host.file.write(WatchdogLease(boot="now", renewed_at=host.now, stop_after_s=10.0))
            look = await host.dog.look()
            assert (look.stopped, host.running()) == ((), {"a"}), look.failed
    finally:
        driver.ends.set()


def test_lease_of_an_older_agent_is_read_by_its_own_clock(tmp_path):
    (tmp_path / "lease").write_bytes(b'{"boot":"now","renewed_at":5,"stop_after_s":10.0}')
    lease = LeaseFile(tmp_path / "lease").read()
    assert lease is not None
    assert lease.renewed_at >= 5
