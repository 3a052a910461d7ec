"""Verbs of ``hostler host`` that take several hosts, one of them missing or rejected."""

from __future__ import annotations

import pytest

from hostler.cli.control.host.lists import act_on_each
from hostler.control.schemas import Host
from hostler.errors import ConflictError
from tests.cli.cli_in_process import hostler
from tests.cli.control.control_plane_thread import ControlPlaneThread

pytestmark = pytest.mark.usefixtures("project")


@pytest.mark.parametrize("words", [("cordon",), ("drain",), ("drain", "--wait", "5"), ("revoke", "--yes"), ("rotate",)])
def test_nothing_is_done_where_one_of_several_hosts_is_not_there(words: tuple[str, ...]) -> None:
    before = hostler("host", "get", "node-2", "-o", "json").json["version"]
    result = hostler("host", words[0], "node-2", "node-9", *words[1:])
    assert (result.code, result.out, result.error) == (2, "", "host node-9 does not exist")
    after = hostler("host", "get", "node-2", "-o", "json").json
    assert (after["cordoned"], after["draining"], after["state"]) == (False, False, "ready")
    assert after["version"] == before


def test_hosts_that_were_changed_before_one_was_refused_are_shown(served: ControlPlaneThread) -> None:
    shown: list[str] = []

    def act(host: str) -> Host:
        if host == "node-3":
            raise ConflictError("not this one")
        return client.hosts.get(host)

    with served.client() as client, pytest.raises(ConflictError, match="not this one"):
        act_on_each(client, ["node-1", "node-2", "node-3"], act, lambda done: shown.extend(one.name for one in done))
    assert shown == ["node-1", "node-2"]
