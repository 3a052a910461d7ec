"""Verbs of ``hostler vm`` that take several VMs, one of them missing or rejected."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler


def vm(*words: str):
    return hostler("vm", *words)


@pytest.fixture
def three(project):
    """Two VMs that run, and between them one that is protected; give the project."""
    for name, more in (("web-0", ()), ("web-1", ("--protected",)), ("web-2", ())):
        assert vm("create", name, "--cpu", "1", "--memory", "1Gi", "--wait", "300", *more).code == 0
    return project


def powers() -> dict[str, str]:
    return {one["name"]: one["power"] for one in vm("list", "-o", "json").json["items"]}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    "words", [("stop", "web-0", "web-9"), ("stop", "web-0", "--wait", "web-9"), ("delete", "--yes", "web-0", "web-9")]
)
def test_nothing_is_done_where_one_of_several_vms_is_not_there(words):
    result = vm(*words)
    assert (result.code, result.out) == (2, "")
    assert "web-9" in result.error
    assert "; nothing was changed" in result.hint
    assert powers() == {"web-0": "running", "web-1": "running", "web-2": "running"}


def test_vms_that_were_changed_before_one_was_refused_are_shown(three):
    result = vm("delete", "web-0", "web-1", "web-2", "--yes", "--wait", "300")
    assert result.code == 4
    assert result.error == "VM web-1 is protected from deletion"
    assert len(result.lines) == 1
    assert result.lines[0].startswith(f"{three}/web-0: delete accepted")
    left = powers()
    assert (left["web-1"], left["web-2"]) == ("running", "running")
    assert left.get("web-0", "absent") == "absent"


def test_programs_get_them_as_data(three):
    result = vm("delete", "web-0", "web-1", "--yes", "-o", "json")
    assert result.code == 4
    assert result.json["vm"]["name"] == "web-0"
