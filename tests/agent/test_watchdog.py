"""The watchdog: when silence lasts too long, those VMs are stopped whose order says so, and no others."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.drivers.driver import Found
from hostler.agent.drivers.fake import FakeDriver, FakeVm, Fault
from hostler.agent.manifest import FileManifest
from hostler.agent.messages import Order
from hostler.agent.state import Record
from hostler.agent.watchdog import Lease, LeaseFile, Watchdog, due

SECOND = 1_000_000_000
RECORDS = [Record(vm="stops", when_silent="stop"), Record(vm="keeps")]
RUNNING = [Found(vm="stops", power="running"), Found(vm="keeps", power="running"), Found(vm="other", power="running")]


def lease(stop_after_s=10.0, boot="now"):
    return Lease(boot=boot, renewed_at=100 * SECOND, stop_after_s=stop_after_s)


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
        (Found(vm="stops", power="running"), True),
        (Found(vm="stops", power="paused"), True),
        (Found(vm="stops", power="landing"), True),
        (Found(vm="stops", power="stopped"), False),
        (Found(vm="stops", power="left"), False),
        (Found(vm="stops", power="running", is_ours=False), False),
        (Found(vm="unheard-of", power="running"), False),
    ],
)
def test_only_what_runs_here_and_is_ours_is_stopped(vm, is_due):
    assert bool(due(lease(), RECORDS, [vm], "now", 10**15)) == is_due


def test_it_stops_what_is_due_and_tries_again_what_failed(tmp_path):
    async def scenario():
        driver = FakeDriver(faults=[Fault(verb="stop", times=1)])
        for name in ("stops", "keeps"):
            driver.vms[name] = FakeVm(order=Order(vm=name, generation=1, power="running"), power="running")
        manifest, file = FileManifest(tmp_path), LeaseFile(tmp_path / "lease")
        await manifest.load()
        await manifest.save(RECORDS, ())
        now = [0]
        dog = Watchdog(driver, manifest, file, boot="now", clock=lambda: now[0])
        assert await dog.look() == ([], [])
        file.write(Lease(boot="now", renewed_at=0, stop_after_s=10.0))
        assert await dog.look() == ([], [])
        now[0] = 10 * SECOND
        stopped, failed = await dog.look()
        assert (stopped, len(failed)) == ([], 1), "the first try fails"
        assert await dog.look() == (["stops"], [])
        assert await dog.look() == ([], [])
        assert driver.vms["keeps"].power == "running"

    asyncio.run(scenario())
