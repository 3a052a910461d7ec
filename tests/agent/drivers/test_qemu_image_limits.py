"""Images that would exhaust a host: qemu-img has little memory and few seconds for one, and a reason comes back.

A program in the place of qemu-img does what a hostile image makes it do; the last tests use the real one.
"""

from __future__ import annotations

import subprocess

import pytest

from hostler.agent.drivers.driver import BlockedError, PermanentError
from hostler.agent.drivers.qemu import QemuDriver
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.qemu_lab import MIB, in_a_lab

DISK = Disk(size_bytes=4 * MIB, image=Image(path="base"))


def stand_in(lab, body):
    """Put a program in the place of qemu-img."""
    folder = lab.folder / "programs"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    program = folder / "qemu-img"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("body", "expected", "reason"),
    [
        # It ends by itself long after the limit, with another error: without a limit this fails instead of hanging.
        ("exec sleep 20", BlockedError, "qemu-img info of base took longer than 2 s"),
        (
            "exec dd if=/dev/zero of=/dev/null bs=3G count=1",
            BlockedError,
            "qemu-img info of base needs more memory or time",
        ),
        ("while :; do :; done", BlockedError, "qemu-img info of base (took longer|needs more memory or time)"),
        ("exec yes", BlockedError, "qemu-img info of base needs more memory or time"),
        ("echo '[[[[['", PermanentError, "qemu-img does not understand base"),
    ],
    ids=["hangs", "eats memory", "spins", "talks without end", "talks nonsense"],
)
def test_image_that_exhausts_qemu_img_is_rejected_with_a_reason(body, expected, reason):
    async def scenario(lab):
        (lab.images / "base").write_bytes(b"x" * MIB)
        (lab.images / "base").chmod(0o644)
        driver = QemuDriver(lab.settings(image_program=stand_in(lab, body), inspect_s=2.0, acceleration="tcg"))
        await driver.open()
        try:
            with pytest.raises(expected, match=reason) as caught:
                await driver.create(lab.order("a", disks=(DISK,)))
            assert "base" in caught.value.hint or expected is PermanentError
            assert [found.vm for found in await driver.find() if found.is_ours] == []
        finally:
            await driver.close()

    in_a_lab(scenario)


def test_every_call_of_qemu_img_has_limits_of_memory_and_time():
    async def scenario(lab):
        (lab.images / "base").write_bytes(b"x" * MIB)
        (lab.images / "base").chmod(0o644)
        limits = '"$(ulimit -v) $(ulimit -t) $(ulimit -c)"'
        body = f'case {limits} in *unlimited*) echo {limits} >&2; exit 9;; esac; exec qemu-img "$@"'
        driver = QemuDriver(lab.settings(image_program=stand_in(lab, body), acceleration="tcg"))
        await driver.open()
        try:
            await driver.create(lab.order("a", disks=(DISK,)))
            await driver.resize("a", lab.order("a", 2, disks=(Disk(size_bytes=8 * MIB, image=DISK.image),)))
        finally:
            await driver.close()

    in_a_lab(scenario)


@pytest.mark.parametrize("kind", ["vmdk", "vdi", "vhdx", "vpc", "qcow"])
def test_image_of_another_format_is_rejected_with_its_format(kind):
    async def scenario(lab):
        subprocess.run(["qemu-img", "create", "-q", "-f", kind, lab.images / "base", "4M"], check=True)
        (lab.images / "base").chmod(0o644)
        driver = QemuDriver(lab.settings(acceleration="tcg"))
        await driver.open()
        try:
            with pytest.raises(PermanentError, match=f"base is in the format {kind}|not understand|damaged"):
                await driver.create(lab.order("a", disks=(DISK,)))
        finally:
            await driver.close()

    in_a_lab(scenario)
