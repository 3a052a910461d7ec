"""``hostler host``, ``token`` and ``key``, against a real service with fake hosts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN, secret
from tests.cli.control.control_plane_thread import plane
from tests.wait import wait_until

pytestmark = pytest.mark.usefixtures("project")


def host(*words, **more):
    return hostler("host", *words, **more)


def test_hosts_are_listed_with_what_they_may_give():
    result = host("list")
    assert [line.split()[0] for line in result.lines[1:]] == ["node-1", "node-2", "node-3"]
    assert result.row("node-1")[1] == "ready"
    assert result.row("node-1")[2].endswith("/8")
    assert result.lines[0].split()[5:7] == ["VMS", "DEVICES"]
    assert "  0 of 2 gpu:t4  " in result.lines[1]
    assert "hostler/driver=fake" in host("list", "-o", "wide").out
    assert host("list", "--state", "silent").err == "no host is silent\n"


def test_a_host_is_shown_by_name_or_id():
    found = host("get", "node-1", "-o", "json").json
    assert host("get", found["id"], "-o", "json").json["name"] == "node-1"
    assert "ready" in host("get", "node-1").out
    result = host("get", "node-9")
    assert result.code == 2
    assert result.error


def test_scheduling_is_the_block_of_lines():
    result = host("scheduling", "node-1")
    assert result.out.startswith("Agent: node-1\n")
    assert host("scheduling", "node-1", "-o", "json").json["agent"] == "node-1"


def test_a_cordoned_host_takes_nothing_new():
    try:
        assert host("cordon", "node-1", "node-2").lines == ["node-1: ready, cordoned", "node-2: ready, cordoned"]
        assert hostler("vm", "candidates", "--cpu", "1", "--memory", "1Gi", "-o", "json").json["chosen"] == "node-3"
    finally:
        assert host("uncordon", "node-1", "node-2").lines == ["node-1: ready", "node-2: ready"]


def test_a_drained_host_is_left_by_who_can(project):
    vm = hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300", "-o", "json").json["vm"]
    try:
        assert host("drain", vm["host"]).out.startswith(f"{vm['host']}: ready, draining")
        wait_until(lambda: hostler("vm", "get", "web-0", "-o", "json").json["host"] != vm["host"])
    finally:
        assert host("undrain", vm["host"]).code == 0
        host("uncordon", vm["host"])


def test_labels_are_set_and_taken_away():
    assert host("label", "node-2", "disk=ssd", "rack=r1").out == "node-2: disk=ssd,rack=r1\n"
    chosen = hostler("vm", "candidates", "--cpu", "1", "--memory", "1Gi", "--selector", "disk=ssd", "-o", "json").json
    assert chosen["chosen"] == "node-2"
    assert host("label", "node-2", "disk-").out == "node-2: disk removed; left: rack=r1\n"
    assert host("label", "node-2", "disk-", "rack-").out == "node-2: rack removed; disk was not set; none left\n"
    assert host("label", "node-2", "disk").error == "'disk' is not a label change"


@pytest.mark.parametrize("verb", ["force-offline", "confirm-dead", "delete"])
def test_what_cannot_be_taken_back_needs_the_name_once_more(verb):
    result = host(verb, "node-3")
    assert (result.code, result.hint) == (2, "--confirm node-3")
    result = host(verb, "node-3", "--confirm", "node-2")
    assert result.code in (2, 4)
    assert host("get", "node-3", "-o", "json").json["state"] == "ready"


def test_a_token_is_printed_alone_and_once(project):
    result = hostler("token", "create", "--host", "node-7", "--ttl", "10m")
    assert result.code == 0, result.err
    [text] = result.lines
    assert "node-7" in result.err
    assert text not in result.err
    row = next(line for line in hostler("token", "list").lines if "node-7" in line)
    assert "open" in row
    assert text not in hostler("token", "list", "-o", "json").out
    identity = row.split()[0]
    assert hostler("token", "revoke", identity).out == f"token {identity}: revoked\n"
    assert "revoked" in next(line for line in hostler("token", "list").lines if identity in line)


@pytest.mark.parametrize("ttl", ["1s", "10000h", "soon", "1.5s"])
def test_a_token_lives_between_a_minute_and_a_week(ttl):
    result = hostler("token", "create", "--ttl", ttl)
    assert result.code == 2
    assert "ttl" in result.error


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o600, False)])
def test_a_secret_in_a_file_that_others_may_read_is_warned_of(tmp_path, mode, warns):
    path = tmp_path / "token"
    path.touch()
    path.chmod(mode)
    with path.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "token", "create"],
            stdout=file, stderr=subprocess.PIPE, text=True, env=os.environ, check=True,
        )  # fmt: skip
    assert len(path.read_text().split()) == 1
    assert ("umask 077" in done.stderr) == warns
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.usefixtures("project")
def test_a_key_without_an_end_does_not_read_as_revoked():
    assert hostler("key", "whoami").row("Until") == ["Until", "no", "end"]


def test_a_key_does_what_its_role_allows(project, tmp_path):
    words = ("key", "create", "ci", "--role", "viewer", "--in-project", project, "--ttl", "1h")
    result = hostler(*words)
    assert result.code == 0, result.err
    file = secret(tmp_path / "ci.key", result.out)
    assert hostler("key", "whoami", "--key-file", file, "-o", "json").json["role"] == "viewer"
    assert hostler("vm", "list", "--key-file", file).code == 0
    refused = hostler("vm", "create", "x", "--cpu", "1", "--memory", "1Gi", "--key-file", file)
    assert (refused.code, bool(refused.error)) == (2, True)
    identity = next(line for line in hostler("key", "list").lines if " ci " in line).split()[0]
    newer = hostler("key", "rotate", identity)
    assert hostler("vm", "list", "--key-file", secret(tmp_path / "new.key", newer.out)).code == 0
    assert hostler("vm", "list", "--key-file", file).code == 2
    again = next(line for line in hostler("key", "list").lines if " ci " in line and identity not in line).split()[0]
    assert hostler("key", "revoke", again).code == 2
    assert hostler("key", "revoke", again, "--yes").code == 0
    assert hostler("vm", "list", "--key-file", tmp_path / "new.key").code == 2


def test_a_host_that_is_offline_and_empty_can_be_forgotten(tmp_path, monkeypatch):
    with plane(tmp_path, "node-1") as own:
        monkeypatch.setenv("HOSTLER_SERVER", own.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "own.key", own.key)))
        own.end_agents()
        result = host("force-offline", "node-1", "--confirm", "node-1")
        assert (result.code, result.out) == (0, "node-1: offline\n")
        assert host("confirm-dead", "node-1", "--confirm", "node-1").code == 0
        assert host("delete", "node-1", "--confirm", "node-1").out == "node-1: deleted\n"
        assert "host node-1 left" in host("events", "node-1").out
        assert host("list", "-o", "json").json == {"items": []}
        assert (
            host("list").err
            == "there are no hosts yet: 'hostler token create' creates a token with which one can join\n"
        )
