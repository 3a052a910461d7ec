"""VMs on bridges: by name from a list, through a tap that QEMU gets as an open descriptor and never could make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent.driver import UnsupportedError
from hostler.agent.messages import VmNetwork
from tests.agent.drivers import qemu_bridged
from tests.agent.drivers.qemu_setup import ROOT, on_hosts, real_parts
from tests.async_tests import run_with


@pytest.mark.skipif(os.getuid() != 0 or not Path("/dev/net/tun").exists(), reason="only root may make taps")
def test_a_vm_is_put_on_an_allowed_bridge_and_its_tap_goes_with_it():
    real_parts()
    command = ["unshare", "--net", sys.executable, "-m", qemu_bridged.__name__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@run_with(on_hosts)
async def test_a_host_without_bridges_says_that_it_has_none(setup, driver, /):
    assert not driver.capabilities.bridges
    with pytest.raises(UnsupportedError):
        await driver.create(setup.order("a", network=VmNetwork(kind="bridge", bridge="br0")))
