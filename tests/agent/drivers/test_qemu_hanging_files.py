"""Files of VMs on a mount that does not answer: the event loop and the threads of others go on.

A FIFO that nobody writes to stands in for such a file: to open it takes for ever, as on a stale NFS mount. No VM is
booted, so no QEMU is needed.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.settings import QemuSettings

RESCUE_S = 3.0  # if the event loop is blocked all the same, the files answer after that, and the test fails
MARKS = "one.marks"


class HangingFiles:
    """FIFOs in the place of files. ``release`` lets them answer from now on."""

    def __init__(self, paths):
        self._paths = paths
        self._must_answer = threading.Event()
        self._is_over = threading.Event()
        for path in paths:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def release(self):
        self._must_answer.set()

    def remove(self):
        self._is_over.set()
        self._must_answer.set()
        self._thread.join()

    def _answer(self):
        self._must_answer.wait(RESCUE_S)
        while not self._is_over.wait(0.005):
            for path in self._paths:
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # wakes those who wait to read or write


@asynccontextmanager
async def hanging_host(name):
    """Yield the open driver of a host and its hanging files."""
    with tempfile.TemporaryDirectory(prefix="hostler-") as place:
        folder = Path(place) / "one"
        user = "nobody" if os.getuid() == 0 else ""
        settings = QemuSettings(folder=folder, user=user, program="true", image_program="true", acceleration="tcg")
        driver = QemuDriver(settings, marks_file=Path(place) / MARKS)
        await driver.open()
        (folder / "vms" / "a").mkdir()
        (folder / "vms" / "a" / "vm.json").write_text("{}")  # a folder without it would be cleared away
        files = HangingFiles([Path(place) / name])
        try:
            yield driver, files
        finally:
            files.remove()
            await driver.close()


@pytest.mark.parametrize("name", ["one/vms/a/vm.json", "one/vms/a/process.json", "one/landing-port", "one/lock", MARKS])
async def test_file_that_hangs_does_not_block_the_event_loop(name):
    async with hanging_host(name) as (driver, files):
        loop = asyncio.get_running_loop()
        began = loop.time()
        look = loop.create_task(driver.find())
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert loop.time() - began < RESCUE_S, "the event loop was blocked until the file answered"
        assert not look.done()
        files.release()
        with suppress(Exception):  # the content of a FIFO makes no sense
            await look


@pytest.mark.parametrize("name", ["one/vms/a/vm.json", MARKS])
async def test_looks_that_hang_leave_threads_for_others(name):
    """Threads of the common pool resolve names and save records: a few hanging looks must not take all of them."""

    async with hanging_host(name) as (driver, files):
        loop = asyncio.get_running_loop()
        looks = [loop.create_task(driver.find()) for _ in range(100)]
        await asyncio.sleep(0.1)
        other = loop.create_task(asyncio.to_thread(lambda: "works"))
        done, _ = await asyncio.wait({other}, timeout=RESCUE_S / 2)
        files.release()
        await asyncio.gather(*looks, return_exceptions=True)
        assert done, "all threads of the common pool hang"
