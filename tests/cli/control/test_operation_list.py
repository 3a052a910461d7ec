"""``hostler operation list``, against a real service with fake hosts."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler


@pytest.mark.usefixtures("project")
def test_filtered_operations_are_listed_newest_first() -> None:
    words = ("--cpu", "1", "--memory", "1Gi", "-o", "json")
    made = [hostler("vm", "create", name, *words).json["operation"]["id"] for name in ("one", "two", "three")]
    assert [one["id"] for one in hostler("operation", "list", "-o", "json").json["items"]] == made[::-1]
    some = hostler("operation", "list", "--limit", "2", "-o", "json").json["items"]
    assert [one["id"] for one in some] == [made[2], made[1]]
