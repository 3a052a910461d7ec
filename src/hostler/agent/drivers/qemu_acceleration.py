"""Whether this machine's processors can run guests by themselves: found out by trying, not by looking for a device.

A ``/dev/kvm`` proves little: there are ones that start a VM and then cannot run a common kernel. Those belong to
processors without virtualisation of their own, so that is asked first, and QEMU is tried after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hostler.agent.drivers.qemu_command import MACHINE
from hostler.agent.drivers.qemu_processes import ToolLimits, run_tool
from hostler.agent.drivers.qemu_settings import Runner

__all__ = ["find_acceleration"]

_LIMITS = ToolLimits(timeout_s=20.0, cpu_s=20, memory_bytes=2**33, file_bytes=2**20)


async def find_acceleration(
    program: str, runner: Runner, *, processors: Path = Path("/proc/cpuinfo"), device: Path = Path("/dev/kvm")
) -> Literal["kvm", "tcg"]:
    """Return how VMs run here."""
    if not _can_virtualise(processors) or not device.exists():
        return "tcg"
    # QEMU makes a whole machine on the processors, describes it and ends: the shortest life a VM can have.
    trial = [
        program, "-no-user-config", "-nodefaults", "-machine", MACHINE, "-accel", "kvm", "-cpu", "host",
        "-m", "size=16M", "-display", "none", "-S", "-dump-vmstate", "/dev/null",
    ]  # fmt: skip
    try:
        code, _, _ = await run_tool(trial, runner, _LIMITS)
    except TimeoutError:
        return "tcg"
    return "kvm" if code == 0 else "tcg"


def _can_virtualise(processors: Path) -> bool:
    for line in processors.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return not {"vmx", "svm"}.isdisjoint(value.split())
    return False
