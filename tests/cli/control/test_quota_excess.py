"""What commands say where it is the quota that keeps a VM from hosts, and where it is the hosts."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler

TWO = ("--cpu", "2", "--memory", "1Gi")


def test_vm_rejected_by_quota_does_not_mention_room_on_hosts(project):
    assert hostler("quota", "set", project, "--max", "cpu=1").code == 0
    result = hostler("vm", "create", "web", *TWO, "--fail-unplaced")
    assert result.code == 1
    assert result.error.startswith("VM web is not placed: the project's quota has no room for it: cpu")
    assert result.hint == (
        f"ask for less, see 'hostler quota get {project}', which an admin may raise, "
        "or leave --fail-unplaced out and let it wait"
    )


def test_candidates_say_that_hosts_would_take_it_and_the_quota_does_not(project):
    assert hostler("quota", "set", project, "--max", "cpu=1").code == 0
    result = hostler("vm", "candidates", *TWO)
    assert result.code == 1
    told = " ".join(result.out.split())
    assert told.startswith(
        "3 of 3 hosts would take it, but it would wait: the project's quota has no room for it: cpu beyond the maximum"
    )


def test_candidates_count_the_hosts_once_where_none_would_take_it(project):
    result = hostler("vm", "candidates", "-p", project, "--cpu", "64", "--memory", "1Gi")
    assert result.code == 1
    assert result.out.startswith("no host would take it: 0 of 3 hosts: 3 insufficient cpu")
    assert result.out.count("0 of 3 hosts") == 1
