"""``hostler quota set``: each resource by itself, against a real service."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until


def test_only_the_resource_that_is_named_changes(project):
    assert hostler("quota", "set", project, "--max", "cpu=16,memory=32Gi", "--min", "cpu=2").code == 0
    assert hostler("quota", "set", project, "--max", "cpu=20").out == (
        f"quota of {project}: cpu 2 guaranteed, at most cpu 20, memory 32Gi\n"
    )


def test_one_limit_is_taken_away_and_the_others_stay(project):
    assert hostler("quota", "set", project, "--max", "cpu=16,memory=32Gi").code == 0
    result = hostler("quota", "set", project, "--max", "memory-,guests=4")
    assert (result.code, result.out) == (0, f"quota of {project}: - guaranteed, at most cpu 16, guests 4\n")


def test_a_resource_cannot_be_set_and_taken_away_at_once(project):
    result = hostler("quota", "set", project, "--max", "cpu=16", "--max", "cpu-")
    assert (result.code, result.error) == (2, "--max names 'cpu' twice")


@pytest.mark.parametrize("name", ["foo", "disk", "gpu"])
def test_what_no_quota_counts_is_refused_and_the_quota_stays(project, name):
    assert hostler("quota", "set", project, "--max", "cpu=16").code == 0
    result = hostler("quota", "set", project, "--max", f"{name}=1")
    assert (result.code, result.error) == (2, f"max: {name!r} is not counted by quotas")
    assert "storage" in result.hint
    assert hostler("quota", "get", project, "-o", "json").json["max"] == {"cpu": "16"}


def test_that_the_quota_is_used_up_is_explained_of_the_project(project):
    assert hostler("quota", "set", project, "--max", "cpu=1").code == 0
    assert hostler("vm", "create", "large", "--cpu", "2", "--memory", "1Gi").code == 0
    wait_until(lambda: "quota" in hostler("vm", "get", "large", "-o", "json").json["why"])
    said = hostler("vm", "explain", "large").out
    assert "Its project's quota has no room for it: " in said
    assert "tenant" not in said


def test_unreachable_quota_maximum_gets_note_with_command(project):
    assert hostler("quota", "set", project, "--max", "guests=3").err == ""
    result = hostler("quota", "set", project, "--min", "guests=1")
    assert result.code == 0
    assert result.err == (
        f"note: {project} does not get to guests 3: beyond what it is guaranteed it borrows what others leave of "
        f"theirs, and guests 1 is guaranteed in all. 'hostler quota set {project} --min guests=3' guarantees it\n"
    )
    assert hostler("quota", "set", project, "--min", "guests=3").err == ""
    assert hostler("quota", "delete", project, "--yes").code == 0


@pytest.mark.parametrize(("limit", "option"), [(("--max", "guests=1"), "max"), (("--min", "guests=1"), "min")])
def test_quota_command_of_explanation_lets_waiting_vm_in(project, limit, option):
    small = ("--cpu", "1", "--memory", "1Gi")
    assert hostler("quota", "set", project, *limit).code == 0
    assert hostler("vm", "create", "one", *small, "--wait", "300").code == 0
    assert hostler("vm", "create", "two", *small).code == 0
    wait_until(lambda: "quota" in hostler("vm", "get", "two", "-o", "json").json["why"])
    command = f"hostler quota set {project} --{option} guests=2"
    assert f"'{command}' would let it in" in hostler("vm", "explain", "two").out
    assert hostler(*command.split()[1:]).code == 0
    wait_until(lambda: hostler("vm", "get", "two", "-o", "json").json["state"] == "running")
    assert hostler("quota", "delete", project, "--yes").code == 0


def test_maximum_below_current_use_is_noted_when_it_is_set(project):
    for name in ("web-0", "web-1"):
        assert hostler("vm", "create", name, "--cpu", "2", "--memory", "1Gi", "--wait", "300").code == 0
    first = hostler("quota", "set", project, "--max", "cpu=3,memory=8Gi")
    assert first.code == 0
    assert first.err.splitlines()[0] == (
        f"note: the VMs of {project} use cpu 4, more than the maximum cpu 3: they keep it, and no VM that needs more "
        "cpu is placed until they use less"
    )
    again = hostler("quota", "set", project, "--max", "cpu=8,guests=1")
    assert again.err.startswith(f"note: the VMs of {project} use guests 2, more than the maximum guests 1: ")
    assert hostler("quota", "get", project, "-o", "json").json["note"] in again.err
    assert "more than the maximum" not in hostler("quota", "set", project, "--max", "guests=2").err
    assert hostler("quota", "delete", project, "--yes").code == 0
