"""Puts a VM on a bridge, in a network of its own: run by ``test_qemu_bridge.py`` through ``unshare --net``."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
from pathlib import Path

from hostler.agent.driver import BlockedError, PermanentError
from hostler.agent.messages import VmNetwork
from tests.agent.drivers.contract import opened
from tests.agent.drivers.qemu_setup import QemuSetup
from tests.wait import until

ADD_BRIDGE, LEAVE_BRIDGE, INDEX = 0x89A0, 0x89A3, 0x8933


def taps() -> list[str]:
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    return [name for name in (line.partition(":")[0].strip() for line in lines) if name.startswith("tap")]


def is_on_bridge(tap: str) -> bool:
    """Say whether a tap was on the bridge, by taking it off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        (index,) = struct.unpack("16xi20x", fcntl.ioctl(control, INDEX, struct.pack("16s24x", tap.encode())))
        try:
            fcntl.ioctl(control, LEAVE_BRIDGE, struct.pack("16si20x", b"br0", index))
        except OSError:
            return False
        return True


async def refused(kind: type[Exception], work) -> None:
    try:
        await work
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def main() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, ADD_BRIDGE, b"br0\0")
    setup = QemuSetup(Path(), bridges=("br0", "br-missing"))
    try:
        async with opened(setup) as driver:
            assert driver.capabilities.bridges
            await refused(
                PermanentError, driver.create(setup.order("a", network=VmNetwork(kind="bridge", bridge="docker0")))
            )
            await driver.create(setup.order("lost", network=VmNetwork(kind="bridge", bridge="br-missing")))
            await refused(BlockedError, driver.start("lost"))
            assert taps() == [], "a tap that has no bridge is not kept"
            await driver.create(setup.order("a", network=VmNetwork(kind="bridge", bridge="br0")))
            await driver.start("a")
            (tap,) = taps()
            assert is_on_bridge(tap)
            await driver.stop("a", grace_s=0)
            await until(lambda: not taps())  # it goes with its VM, whose last thread may still close its files
    finally:
        await setup.clean()


if __name__ == "__main__":
    asyncio.run(main())
