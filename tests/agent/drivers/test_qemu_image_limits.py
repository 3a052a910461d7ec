"""Images that would exhaust a host: qemu-img has little memory and few seconds for one, and a reason comes back.

A program in the place of qemu-img does what a hostile image makes it do; the last tests use the real one.
"""

from __future__ import annotations

import subprocess

import pytest

from hostler.agent.driver import BlockedError, PermanentError
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.qemu_setup import MIB, in_qemu_setup
from tests.async_tests import run_with
from tests.wait import GIVE_UP_S

DISK = Disk(size_bytes=4 * MIB, image=Image(path="base"))


def stand_in(setup, body):
    """Put a program in the place of qemu-img."""
    folder = setup.folder / "programs"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    program = folder / "qemu-img"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("body", "inspect_s", "expected", "reason"),
    [
        # It ends by itself long after the limit, with another error: without a limit this fails instead of hanging.
        ("exec sleep 20", 2.0, BlockedError, "qemu-img info of base took longer than 2 s"),
        (
            "exec dd if=/dev/zero of=/dev/null bs=3G count=1",
            GIVE_UP_S,
            BlockedError,
            "qemu-img info of base needs more memory or time",
        ),
        ("while :; do :; done", 2.0, BlockedError, "qemu-img info of base (took longer|needs more memory or time)"),
        ("exec yes", GIVE_UP_S, BlockedError, "qemu-img info of base needs more memory or time"),
        ("echo '[[[[['", GIVE_UP_S, PermanentError, "qemu-img does not understand base"),
    ],
    ids=["hangs", "eats memory", "spins", "talks without end", "talks nonsense"],
)
@run_with(in_qemu_setup)
async def test_image_that_exhausts_qemu_img_is_rejected_with_a_reason(setup, /, body, inspect_s, expected, reason):
    (setup.images / "base").write_bytes(b"x" * MIB)
    (setup.images / "base").chmod(0o644)
    driver = QemuDriver(setup.settings(image_program=stand_in(setup, body), inspect_s=inspect_s, acceleration="tcg"))
    await driver.open()
    try:
        with pytest.raises(expected, match=reason) as caught:
            await driver.create(setup.order("a", disks=(DISK,)))
        assert "base" in caught.value.hint or expected is PermanentError
        assert [found.vm for found in await driver.find() if found.is_ours] == []
    finally:
        await driver.close()


@run_with(in_qemu_setup)
async def test_every_call_of_qemu_img_has_limits_of_memory_and_time(setup, /):
    (setup.images / "base").write_bytes(b"x" * MIB)
    (setup.images / "base").chmod(0o644)
    limits = '"$(ulimit -v) $(ulimit -t) $(ulimit -c)"'
    body = f'case {limits} in *unlimited*) echo {limits} >&2; exit 9;; esac; exec qemu-img "$@"'
    driver = QemuDriver(setup.settings(image_program=stand_in(setup, body), acceleration="tcg"))
    await driver.open()
    try:
        await driver.create(setup.order("a", disks=(DISK,)))
        await driver.resize("a", setup.order("a", 2, disks=(Disk(size_bytes=8 * MIB, image=DISK.image),)))
    finally:
        await driver.close()


@pytest.mark.parametrize("kind", ["vmdk", "vdi", "vhdx", "vpc", "qcow"])
@run_with(in_qemu_setup)
async def test_image_of_another_format_is_rejected_with_its_format(setup, /, kind):
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, setup.images / "base", "4M"], check=True)
    (setup.images / "base").chmod(0o644)
    driver = QemuDriver(setup.settings(acceleration="tcg"))
    await driver.open()
    try:
        with pytest.raises(PermanentError, match=f"base is in the format {kind}|not understand|damaged"):
            await driver.create(setup.order("a", disks=(DISK,)))
    finally:
        await driver.close()
