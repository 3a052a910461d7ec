"""``hostler vm start`` of a lost VM while a host is missing: rejected with the reason, unless an admin forces it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_in_process import Result, hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import ControlPlaneThread, plane
from tests.wait import wait_until

HOSTS = ("node-1", "node-2", "node-3")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlaneThread]:
    """A control plane of this test alone: it loses hosts."""
    with plane(tmp_path, *HOSTS) as running:
        monkeypatch.setenv("HOSTLER_SERVER", running.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "admin.key", running.key)))
        yield running


def done(*words: str) -> Result:
    result = hostler(*words)
    assert result.code == 0, result.err
    return result


def look(vm: str) -> Any:
    return done("vm", "get", vm, "-o", "json").json


def lose_vm(name: str) -> tuple[str, str]:
    """Create a VM and lose its host for good. Return a second host, which is missing, and a third, which lives."""
    done("vm", "create", name, "--cpu", "1", "--memory", "1Gi", "--disk", "1Gi", "--wait", "60")
    home = look(name)["host"]
    missing, alive = (host for host in HOSTS if host != home)
    done("host", "revoke", home, missing, "--yes")  # agents that live would register again
    for host in (home, missing):
        done("host", "force-offline", host, "--confirm", host)
    done("host", "confirm-dead", home, "--confirm", home)
    wait_until(lambda: look(name)["state"] == "lost", f"{name} is lost", saw=lambda: look(name))
    return missing, alive


def key_of(folder: Path, role: str, *words: str) -> str:
    made = done("key", "create", f"{role}-key", "--role", role, *words)
    return str(secret(folder / f"lesser-{role}.key", made.out.strip()))


def test_start_of_lost_vm_is_rejected_while_a_host_is_missing(own: ControlPlaneThread) -> None:
    missing, _ = lose_vm("web")
    result = hostler("vm", "start", "web")
    assert result.code == 4, result.err
    assert f"VM web is lost and is not created again while hosts are missing that may still have it: {missing}" in (
        result.error
    )
    assert "'hostler vm start default/web --force'" in result.hint
    assert look("web")["state"] == "lost"


def test_forced_start_of_lost_vm_is_for_admins_of_all_projects(own: ControlPlaneThread) -> None:
    missing, alive = lose_vm("web")
    keys = [key_of(own.folder, role) for role in ("operator", "editor")]
    keys.append(key_of(own.folder, "admin", "--in-project", "default"))
    for key in keys:
        result = hostler("vm", "start", "web", "--force", "--key-file", key)
        assert (result.code, "vm.force" in result.error) == (2, True), result.err
        assert look("web")["state"] == "lost"
    done("vm", "start", "web", "--force", "--wait", "60")
    assert (look("web")["state"], look("web")["host"]) == ("running", alive)
    told = done("vm", "events", "web").out
    assert f"forced lost web to start while hosts were missing: {missing}" in told
