"""The watchdog as a process of its own: one per folder, there as long as it is needed."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from hostler.agent.boot import boot_id, boottime_ns
from hostler.agent.core.state import Record
from hostler.agent.driver import DriverError
from hostler.agent.drivers.fake import FakeDriver, FakeVm, Fault
from hostler.agent.messages import Order
from hostler.agent.startup import AgentFolder
from hostler.agent.supervision import keep_watchdog, run_watchdog
from hostler.agent.watchdog.watchdog import WatchdogLease
from hostler.errors import ConflictError
from hostler.telemetry.log import Log
from tests.agent.guard import watchdog_process
from tests.recorded_log import recorded_log
from tests.wait import GIVE_UP_S, until

HYPERVISOR = "qemu /here"


def host(*powers, **options):
    driver = FakeDriver(**options)
    for number, power in enumerate(powers):
        driver.vms[str(number)] = FakeVm(order=Order(vm=str(number), generation=1, power="running"), power=power)
    return driver


def watch(tmp_path, driver, *, lease=None, records=(), until=None, lines=None):
    """Run a watchdog to its end, which a condition brings about where it does not end by itself."""
    home = AgentFolder(tmp_path)
    lines = [] if lines is None else lines

    async def scenario():
        stopping = asyncio.Event()
        await home.manifest.load()
        await home.manifest.save(records, ())
        if lease is not None:
            home.lease.write(lease)
        work = run_watchdog(
            home,
            driver,
            hypervisor=HYPERVISOR,
            stopping=stopping,
            log=recorded_log(lines),
            leaves_after_s=0.05,
        )
        task = asyncio.get_running_loop().create_task(work)
        async with asyncio.timeout(GIVE_UP_S):
            while until is not None and not until() and not task.done():
                await asyncio.sleep(0.01)
            if until is not None:
                stopping.set()
            await task

    asyncio.run(scenario())
    return lines


def silent():
    return WatchdogLease(boot=boot_id(), renewed_at=boottime_ns() - 10**10, stop_after_s=5.0)


def test_it_stops_what_silence_stops_and_nothing_else(tmp_path):
    driver = host("running", "running")
    records = [Record(vm="0", when_silent="stop"), Record(vm="1")]
    lines = watch(tmp_path, driver, lease=silent(), records=records, until=lambda: driver.vms["0"].power == "stopped")
    assert driver.vms["1"].power == "running"
    assert any(line.startswith("stopped 0:") for line in lines)


def test_it_goes_on_when_the_hypervisor_does_not_answer_once(tmp_path):
    driver = host("running", faults=[Fault(verb="find", times=1)])
    records = [Record(vm="0", when_silent="stop")]
    lines = watch(tmp_path, driver, lease=silent(), records=records, until=lambda: driver.vms["0"].power == "stopped")
    assert any("find" in line for line in lines)


@pytest.mark.parametrize(("lease", "records"), [(None, ()), (silent(), (Record(vm="0"),))], ids=["never", "nothing"])
def test_it_leaves_when_no_agent_is_there_and_nothing_is_left_to_stop(lease, records, tmp_path):
    assert watch(tmp_path, host("running"), lease=lease, records=records)[-1] == "nothing left to watch"


class CountingDriver(FakeDriver):
    looks = 0

    async def find(self):
        self.looks += 1
        return await super().find()


def test_it_stays_as_long_as_something_might_have_to_be_stopped(tmp_path):
    driver, records = CountingDriver(), [Record(vm="0", when_silent="stop")]
    lines = watch(tmp_path, driver, lease=silent(), records=records, until=lambda: driver.looks == 3)
    assert lines == []


class UnreachableDriver(FakeDriver):
    async def open(self):
        raise DriverError("nobody there")


def test_it_leaves_also_where_the_hypervisor_never_answers(tmp_path):
    lines = watch(tmp_path, UnreachableDriver())
    assert "this look came to nothing: nobody there" in lines
    assert lines[-1] == "nothing left to watch"


def test_a_host_counts_as_watched_while_its_watchdog_looks_and_no_longer(tmp_path):
    home = AgentFolder(tmp_path)
    assert not home.is_watched(HYPERVISOR)
    watch(tmp_path, host(), lease=silent(), until=lambda: home.is_watched(HYPERVISOR))
    assert not home.is_watched(HYPERVISOR), "it left, and said so"


def test_a_watchdog_of_another_hypervisor_does_not_count(tmp_path):
    home = AgentFolder(tmp_path)
    seen = []

    def has_looked():
        seen.append((home.is_watched("libvirt qemu:///system"), home.is_watched("")))
        return home.is_watched(HYPERVISOR)

    watch(tmp_path, host(), lease=silent(), until=has_looked)
    assert set(seen) == {(False, False)}


class BrokenDriver(FakeDriver):
    """A driver that raises what nobody expects: the story of a foreign process with 5,000 digits of memory."""

    def __init__(self, error, **more):
        super().__init__(**more)
        self.error = error

    async def find(self):
        raise self.error


class SilentOutput(FakeDriver):
    async def find(self):
        raise DriverError("no answer")


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (SilentOutput(), "no answer"),
        (UnreachableDriver(), "nobody there"),
        (BrokenDriver(ValueError("5000 digits")), "5000 digits"),
        (BrokenDriver(RecursionError()), "RecursionError"),
        (BrokenDriver(MemoryError()), "MemoryError"),
        (BrokenDriver(OSError(5, "Input/output error")), "Input/output error"),
        (host("running", faults=[Fault(verb="stop")]), "stop"),
    ],
    ids=["does not answer", "cannot be opened", "value", "recursion", "memory", "disk", "stops nothing"],
)
def test_a_watchdog_that_could_not_stop_a_vm_does_not_count(driver, why, tmp_path):
    home = AgentFolder(tmp_path)
    records = [Record(vm="0", when_silent="stop")] if driver.vms else ()
    seen: list[bool] = []
    lines: list[str] = []

    def has_seen_enough():
        seen.append(home.is_watched(HYPERVISOR))
        return len(seen) >= 100 and any(why in line for line in lines)

    watch(tmp_path, driver, lease=silent(), records=records, until=has_seen_enough, lines=lines)
    assert set(seen) == {False}


class FullDiskOutput(list):
    """A log that takes no line, as a file on a disk that some local process has filled."""

    def append(self, line):
        raise OSError(28, "No space left on device")


def test_log_that_takes_no_line_does_not_end_the_watchdog(tmp_path):
    driver = host("running", "running", faults=[Fault(verb="stop", times=1)])
    records = [Record(vm="0", when_silent="stop"), Record(vm="1", when_silent="stop")]

    def all_are_stopped():
        return {vm.power for vm in driver.vms.values()} == {"stopped"}

    watch(tmp_path, driver, lease=silent(), records=records, until=all_are_stopped, lines=FullDiskOutput())
    assert all_are_stopped()


async def test_a_watchdog_that_is_killed_or_stands_still_counts_no_longer(tmp_path):
    async def story(number, *, may_go_on):
        home = AgentFolder(tmp_path / number.name)
        async with watchdog_process(home.folder, HYPERVISOR) as process:
            await until(lambda: home.is_watched(HYPERVISOR))
            process.send_signal(number)
            await until(lambda: not home.is_watched(HYPERVISOR))
            if may_go_on:
                process.send_signal(signal.SIGCONT)
                await until(lambda: home.is_watched(HYPERVISOR))

    await asyncio.gather(story(signal.SIGKILL, may_go_on=False), story(signal.SIGSTOP, may_go_on=True))


async def test_agent_starts_watchdog_once_its_lease_is_readable(tmp_path):
    home = AgentFolder(tmp_path)
    (tmp_path / "lease.json").mkdir()
    lines: list[str] = []

    keeping = asyncio.create_task(keep_watchdog(home, ["version"], Log(lines.append)))
    await until(lambda: bool(lines) or keeping.done())
    (tmp_path / "lease.json").rmdir()
    home.lease.write(silent())
    await until(lambda: lines[-1].endswith("INFO  watchdog started") or keeping.done())
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert "WARN  no watchdog can be started" in lines[0]


async def test_one_watchdog_per_folder(tmp_path):
    stopping = asyncio.Event()
    first = asyncio.get_running_loop().create_task(
        run_watchdog(AgentFolder(tmp_path), host(), hypervisor="", stopping=stopping, log=Log(print))
    )
    await asyncio.sleep(0)  # it takes the lock before it waits for anything
    with pytest.raises(ConflictError, match="another watchdog"):
        await run_watchdog(AgentFolder(tmp_path), host(), hypervisor="", stopping=stopping, log=Log(print))
    stopping.set()
    await first


async def test_disk_that_hangs_does_not_keep_vms_running(tmp_path):
    """Whatever is written after a look, the log here, may never return: the looks go on."""
    driver, ends = host("running"), threading.Event()
    home = AgentFolder(tmp_path)

    await home.manifest.load()
    await home.manifest.save([Record(vm="0", when_silent="stop")], ())
    stopping = asyncio.Event()
    work = run_watchdog(
        home, Late(driver), hypervisor="", stopping=stopping, log=Log(lambda line: print(ends.wait(60)))
    )
    home.lease.write(silent())
    task = asyncio.get_running_loop().create_task(work)
    await until(lambda: driver.vms["0"].power == "stopped")
    stopping.set()
    ends.set()
    await task


class Late(CountingDriver):
    """A hypervisor that fails at first, so that there is something to log, and then stops VMs."""

    def __init__(self, driver):
        super().__init__()
        self.vms = driver.vms

    async def find(self):
        if self.looks == 0:
            self.looks = 1
            raise DriverError("not yet")
        return await super().find()
