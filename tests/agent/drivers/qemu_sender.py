"""Sends a VM from a process of its own, which a test can kill: FOLDER IMAGES USER VM ADDRESS SECRET."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hostler.agent.driver import Landing
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.settings import QemuSettings


async def send(folder: str, images: str, user: str, vm: str, address: str, secret: str) -> None:
    driver = QemuDriver(QemuSettings(folder=Path(folder), image_roots=(Path(images),), user=user))
    await driver.open()
    try:
        await driver.send(vm, Landing(address=address, secret=secret))
    finally:
        await driver.close()


if __name__ == "__main__":
    asyncio.run(send(*sys.argv[1:]))
