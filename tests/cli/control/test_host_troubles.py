"""``hostler host list`` and ``get`` of a host that must register again, and of one that unknown VMs live on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from urllib.request import Request, urlopen

import msgspec
import pytest

from hostler.agent.messages import JOIN_PATH, REGISTER_PATH, Capabilities, Join, Joined, Register, Taken
from hostler.cli.control.host.lists import host_state
from hostler.control.schemas import TokenCreate
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import GIB, SIZE, ControlPlaneThread, plane


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """Give a control plane with one host, on which an unknown VM takes 3 cpus."""
    with plane(tmp_path) as running:
        with running.client() as client:
            token = client.tokens.create(TokenCreate(host_name="north")).secret
        joined = msgspec.json.decode(_post(running, JOIN_PATH, Join(token=token, name="north")), type=Joined)
        message = Register(
            boot="boot-1", agent="agent-1", version="1", driver="fake", capabilities=Capabilities(), size=SIZE,
            unknown=("guest@17",), taken=(Taken(vm="guest@17", cpu_millis=3000, memory_bytes=2 * GIB),),
        )  # fmt: skip
        _post(running, REGISTER_PATH, message, joined.credential)
        monkeypatch.setenv("HOSTLER_SERVER", running.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "key", running.key)))
        yield running


def _post(running: ControlPlaneThread, path: str, message: msgspec.Struct, credential: str = "") -> bytes:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {credential}"}
    request = Request(f"{running.address}{path}", msgspec.json.encode(message), headers)
    with urlopen(request) as answer:
        return answer.read()


def forget_agents(running: ControlPlaneThread) -> None:
    """Let all hosts be as a restore leaves them."""
    with closing(sqlite3.connect(running.folder / "plane.db")) as connection, connection:
        connection.execute("UPDATE hosts SET agent = '', boot = ''")


@pytest.mark.usefixtures("crowded")
def test_what_unknown_vms_take_is_shown_with_them():
    lines = hostler("host", "get", "north").lines
    assert [line.split(maxsplit=2)[-1] for line in lines if line.startswith(("Unknown VMs", "They take"))] == [
        "guest@17",
        "cpu 3, memory 2Gi",
    ]
    assert not any(line.startswith("Trouble") for line in lines)
    assert hostler("host", "list").row("north")[2] == "0/5"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "ready"),
        ({"draining": True}, "ready, draining"),
        ({"registered": False, "draining": True}, "ready, not registered"),
        ({"registered": False, "state": "silent"}, "silent"),
    ],
)
def test_a_host_that_must_register_again_is_not_listed_as_ready_alone(changes, text):
    plain = {"state": "ready", "registered": True, "draining": False, "cordoned": False}
    assert host_state(SimpleNamespace(**plain | changes)) == text


def test_a_host_that_must_register_again_says_so_and_what_to_do(crowded):
    forget_agents(crowded)
    [line] = [line for line in hostler("host", "get", "north").lines if line.startswith("Trouble")]
    assert "it has not registered since the restore" in line
    assert "hostler host confirm-dead north" in line
