"""A control plane without hosts says that there are none, and how one joins."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")
NONE_YET = "there are no hosts yet: 'hostler token create' creates a token with which one can join"


@pytest.mark.usefixtures("empty")
def test_an_empty_fleet_is_not_searched_for_such_hosts():
    assert hostler("host", "list").err == f"{NONE_YET}\n"
    assert hostler("host", "list", "--state", "ready").err == "no host is ready\n"
    asked = hostler("vm", "candidates", *SMALL)
    assert (asked.code, asked.out) == (1, f"{NONE_YET}.\n")
    assert hostler("vm", "create", "web-0", *SMALL).code == 0
    wait_until(lambda: bool(hostler("vm", "get", "web-0", "-o", "json").json["why"]))
    explained = hostler("vm", "explain", "web-0").out
    assert "fits nowhere: there are no hosts; " in explained
    assert "eviction" not in explained
