"""The contract of drivers on real libvirt and QEMU: ``qemu:///system``, served by a libvirtd that the test starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.drivers.libvirt_daemon import IN_NAMESPACES
from tests.agent.drivers.qemu_setup import ROOT, real_parts

pytestmark = pytest.mark.early

CHECKS = Path(__file__).with_name("libvirt_system_checks.py")
GIVE_UP_S = 540  # software emulation on a busy machine; below the limit of one test


def test_driver_keeps_the_contract_on_qemu_system() -> None:
    pytest.importorskip("libvirt")
    if shutil.which("libvirtd") is None:
        pytest.skip("libvirtd is not installed: apt-get install --no-install-recommends libvirt-daemon")
    if os.getuid() != 0:
        pytest.skip("only root may start libvirtd for qemu:///system")
    real_parts()
    command = [*IN_NAMESPACES, sys.executable, "-m", "tests.agent.drivers.libvirt_daemon", str(CHECKS)]
    done = subprocess.run(
        command, cwd=ROOT, timeout=GIVE_UP_S, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
