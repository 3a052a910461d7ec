"""``hostler quota set``: each resource by itself, against a real service."""

from __future__ import annotations

import pytest

from tests.cli.control.plane import wait_until
from tests.cli.running import hostler


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
