"""What ``hostler host`` says of labels that are not the operator's, and of hosts that nobody hears."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import plane
from tests.wait import wait_until


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "hostler/driver"])
def test_a_label_that_no_operator_may_set_is_not_taken_away_by_one_either(key: str) -> None:
    assert hostler("host", "label", "node-2", f"{key}=x").code == 2
    result = hostler("host", "label", "node-2", "disk=ssd", f"{key}-")
    assert (result.code, result.out) == (2, "")
    assert result.error == f"{key}: only labels that an operator set can be taken away from node-2"
    assert hostler("host", "get", "node-2", "-o", "json").json["own_labels"] == {}


@pytest.mark.usefixtures("project")
def test_host_forced_offline_becomes_ready_while_its_agent_lives() -> None:
    assert hostler("host", "force-offline", "node-3", "--confirm", "node-3").code == 0
    wait_until(lambda: hostler("host", "get", "node-3", "-o", "json").json["state"] == "ready")
    told = " ".join(hostler("host", "force-offline", "--help").out.split())
    assert "An agent that is alive registers again" in told
    assert "stop its agent first, or revoke its credential with 'hostler host revoke'" in told
    assert "whatever its agent says" not in told + hostler("host", "--help").out


def test_nobody_learns_what_to_do_with_vms_of_a_host_that_is_not_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plane(tmp_path, "node-1") as own:
        monkeypatch.setenv("HOSTLER_SERVER", own.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "own.key", own.key)))
        monkeypatch.setenv("HOSTLER_PROJECT", "team-a")
        assert hostler("project", "create", "team-a").code == 0
        words = ("--cpu", "1", "--memory", "1Gi", "--disk", "1Gi", "--wait", "300")
        assert hostler("vm", "create", "db", *words).code == 0
        own.end_agents()
        assert hostler("host", "force-offline", "node-1", "--confirm", "node-1").code == 0
        result = hostler("host", "drain", "node-1", "--wait", "1")
        assert result.code == 3
        unheard = "VMs leave it when it is heard again"
        assert result.error == f"1 VM still on node-1, which is offline: {unheard}"
        assert "hostler host confirm-dead node-1" in result.hint
        assert result.lines == [f"node-1: offline, draining, 1 VM; {unheard}"]
        assert hostler("host", "drain", "node-1").lines == result.lines
