"""A host that was suspended: its time counts, so the watchdog stops its VMs as soon as it wakes up.

The watchdog runs in a time namespace whose CLOCK_BOOTTIME is ahead by an hour while CLOCK_MONOTONIC is not, which is
what a process sees after its machine was suspended for an hour. ``unshare`` needs no privileges for that, unless the
machine forbids namespaces altogether: then the test is left out and says so.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent.boot import boot_id, boottime_ns
from hostler.agent.core.state import Record
from hostler.agent.startup import AgentFolder
from hostler.agent.watchdog.watchdog import WatchdogLease
from tests.wait import GIVE_UP_S

HOUR_S = 3600
WATCH = """
import asyncio, sys
from pathlib import Path
from hostler.agent.drivers.fake import FakeDriver, FakeVm
from hostler.agent.supervision import run_watchdog
from hostler.agent.messages import Order
from hostler.agent.startup import AgentFolder
from hostler.telemetry.log import Log

async def watch():
    driver = FakeDriver()
    driver.vms["a"] = FakeVm(order=Order(vm="a", generation=1, power="running"), power="running")
    stopping = asyncio.Event()
    options = dict(hypervisor="fake", stopping=stopping, log=Log(print))
    task = asyncio.ensure_future(run_watchdog(AgentFolder(Path(sys.argv[1])), driver, **options))
    home = AgentFolder(Path(sys.argv[1]))
    while driver.vms["a"].power == "running" and not home.is_watched("fake"):
        await asyncio.sleep(0.01)
    print(driver.vms["a"].power)
    stopping.set()
    await task

asyncio.run(watch())
"""


async def save_lease(home: AgentFolder) -> None:
    """Leave what an agent leaves that was heard a moment ago, and may be silent for half an hour."""
    await home.manifest.load()
    await home.manifest.save([Record(vm="a", when_silent="stop")], ())
    home.lease.write(WatchdogLease(boot=boot_id(), renewed_at=boottime_ns(), stop_after_s=HOUR_S / 2))


@pytest.mark.parametrize(("asleep_s", "power"), [(0, "running"), (HOUR_S, "stopped")], ids=["awake", "suspended"])
def test_time_of_a_suspended_host_counts_for_its_watchdog(tmp_path: Path, asleep_s: int, power: str):
    sleep = ["unshare", "--user", "--map-root-user", "--time", "--boottime", str(asleep_s), "--fork", "--"]
    if subprocess.run([*sleep, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no time namespace")
    asyncio.run(save_lease(AgentFolder(tmp_path)))
    done = subprocess.run(
        [*sleep, sys.executable, "-c", WATCH, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=GIVE_UP_S,
        check=False,
    )
    assert (done.returncode, power in done.stdout.split()) == (0, True), done
