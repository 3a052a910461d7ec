"""VMs of a gang that nobody has made yet, against a real service."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler

SMALL = ("--cpu", "1", "--memory", "1Gi")


def test_that_a_gang_is_not_there_yet_is_said_once(project):
    result = hostler("vm", "create", "crew", "--count", "2", *SMALL, "--gang", "nope")
    assert result.code == 0
    assert result.err.count(f"gang {project}/nope does not exist yet") == 1
    assert hostler("gang", "create", "nope", "--min-count", "2").code == 0
    assert "does not exist" not in hostler("vm", "create", "third", *SMALL, "--gang", "nope").err
