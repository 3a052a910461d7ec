"""``hostler host get`` says how a host runs VMs: emulation is slow, and nothing else shows it."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("acceleration", "line"),
    [("kvm", "qemu (KVM)"), ("tcg", "qemu (VMs are emulated in software, which is slow)"), ("", "qemu")],
)
def test_a_host_says_whether_its_processors_run_vms(acceleration, line):
    host = hostler("host", "get", "node-1", "-o", "json").json
    host |= {"driver": "qemu", "capabilities": {**host["capabilities"], "acceleration": acceleration}}
    with scripted_server(ScriptedAnswer(body=host)) as script:
        told = hostler("host", "get", "node-1", "--server", script.address)
    assert told.code == 0, told.err
    (said,) = [one for one in told.lines if one.startswith("Driver")]
    assert said.split(maxsplit=1)[1] == line
