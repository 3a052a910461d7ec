"""Hosts that cannot be emptied because no other host takes their VMs, against a real service with fake hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.control.schemas import KeyCreate
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import ControlPlaneThread

pytestmark = pytest.mark.usefixtures("project")


def created(name: str, cpu: str, *words: str) -> dict[str, Any]:
    result = hostler("vm", "create", name, "--cpu", cpu, "--memory", "1Gi", *words, "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    found: dict[str, Any] = result.json["vm"]
    return found


@contextmanager
def undrained(host: str) -> Iterator[None]:
    """Let a host take VMs again at the end."""
    try:
        yield
    finally:
        assert hostler("host", "undrain", host).code == 0


def stuck(host: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = hostler("host", "get", host, "-o", "json").json["stuck"]
    return found


def test_drain_names_vm_without_other_room_until_there_is_room(project: str) -> None:
    host, other, _ = (created(f"fill-{number}", "6")["host"] for number in (1, 2, 3))
    assert host != other, "each fills a host"
    with undrained(host):
        result = hostler("host", "drain", host, "--wait", "300")
        assert result.code == 4, result.err
        why = stuck(host)[0]["why"]
        assert why.startswith("0 of 3 hosts: ")
        assert "insufficient cpu" in why.lower()
        assert f"{project}/fill-1 cannot leave {host}: {why}" in result.lines
        assert result.error == f"cannot leave {host}: {project}/fill-1 ({why})"
        assert f"{project}/fill-1: {why}" in hostler("host", "get", host).out
        assert hostler("vm", "get", "fill-1", "-o", "json").json["state"] in ("running", "migrating")
        assert hostler("vm", "delete", "fill-2", "--yes", "--wait", "300").code == 0
        again = hostler("host", "drain", host, "--wait", "300")
        assert again.code == 0, again.err
        assert f"{project}/fill-1 left {host}: it is " in again.out
        assert stuck(host) == []
        assert "Cannot leave" not in hostler("host", "get", host).out


def test_drain_names_pinned_vm_until_host_is_undrained(project: str) -> None:
    created("pinned", "1", "--host", "node-1")
    with undrained("node-1"):
        result = hostler("host", "drain", "node-1", "--wait", "300")
        assert result.code == 4, result.err
        assert f"{project}/pinned (0 of 3 hosts: " in result.error
        assert f"{project}/pinned: 0 of 3 hosts: " in hostler("host", "get", "node-1").out
    assert stuck("node-1") == []


def test_events_of_unplaced_vm_omit_released_room() -> None:
    created("pinned", "1", "--host", "node-1")
    with undrained("node-1"):
        assert hostler("host", "drain", "node-1", "--wait", "300").code == 4
        told = hostler("vm", "events", "pinned").out
        assert "not moved: 0 of 3 hosts" in told
        assert "no longer asks for a place" in told
        assert "room back" not in told


def test_who_may_not_read_vms_learns_that_there_is_one_and_not_who(
    served: ControlPlaneThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created("pinned", "1", "--host", "node-1")
    with served.client() as client:
        key = client.keys.create(KeyCreate(name="hosts", role="operator", scopes=["host.*"])).secret
    with undrained("node-1"), monkeypatch.context() as other:
        other.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "hosts.key", key)))
        result = hostler("host", "drain", "node-1", "--wait", "300")
        assert result.code == 4, result.err
        assert result.error == "cannot leave node-1: a VM of another project (no other host takes it)"
        assert "pinned" not in result.out + hostler("host", "get", "node-1").out
        assert [one["vm"] for one in stuck("node-1")] == [""]
