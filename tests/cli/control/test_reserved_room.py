"""``hostler host list`` and ``get`` show what reservations keep."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until


def test_what_reservations_keep_stands_beside_what_is_used(project):
    at = ("--selector", "kubernetes.io/hostname=node-2")
    assert "Reserved" not in hostler("host", "get", "node-2").out
    try:
        assert hostler("reservation", "create", "night", "--amounts", "cpu=1,memory=2Gi", *at).code == 0
        assert hostler("reservation", "create", "day", "--amounts", "cpu=500m", *at).code == 0
        wait_until(lambda: len(hostler("host", "get", "node-2", "-o", "json").json["reserved"]) == 2)
        listed = hostler("host", "list").lines
        assert "RESERVED" in listed[0]
        assert ["cpu 1500m, memory 2Gi" in line for line in listed[1:]] == [False, True, False]
        lines = [line.split("  ")[-1] for line in hostler("host", "get", "node-2").lines]
        assert f"cpu 500m kept by reservation {project}/day" in lines
        assert f"cpu 1, memory 2Gi kept by reservation {project}/night" in lines
    finally:
        hostler("reservation", "delete", "night", "--yes")
        hostler("reservation", "delete", "day", "--yes")
    wait_until(lambda: not hostler("host", "get", "node-2", "-o", "json").json["reserved"])


def test_total_is_reserved_in_equal_shares_and_too_much_per_host_rejected(project):
    too_much = hostler("reservation", "create", "all", "--amounts", "cpu=100")
    said = "amounts: none of 3 hosts can hold cpu 100; the most that one can hold is cpu 8"
    assert (too_much.code, too_much.error) == (2, said)
    try:
        made = hostler("reservation", "create", "all", "--total", "cpu=3")
        assert (made.code, made.out) == (0, f"reservation {project}/all: cpu 1 on each of 3 hosts\n"), made.err
    finally:
        hostler("reservation", "delete", "all", "--yes")
    many = hostler("reservation", "create", "all", "--total", "cpu=25")
    assert (many.code, many.error) == (2, "total: cpu 25 is more than the cpu 24 that 3 hosts have left")
    neither = hostler("reservation", "create", "all")
    assert (neither.code, neither.error) == (2, "give either --amounts or --total")


@pytest.fixture
def filled(project):
    """A fleet of 3 hosts with 8 cpus each; another project uses 6 cpus of node-1."""
    assert hostler("project", "create", f"{project}-other").code == 0
    size = ("--cpu", "6", "--memory", "1Gi", "--host", "node-1", "--wait", "300")
    assert hostler("vm", "create", "big", "-p", f"{project}-other", *size).code == 0
    yield project
    hostler("reservation", "delete", "night", "--yes")
    assert hostler("vm", "delete", "big", "-p", f"{project}-other", "--yes", "--wait", "300").code == 0


def test_uneven_shares_are_shown_and_edit_takes_a_total(filled):
    made = hostler("reservation", "create", "night", "--total", "cpu=17")
    said = f"reservation {filled}/night: cpu 17 on 3 hosts (node-1 cpu 2, node-2 cpu 7500m, node-3 cpu 7500m)\n"
    assert (made.code, made.out) == (0, said), made.err
    assert hostler("reservation", "list").row(filled)[1:6] == ["night", "cpu", "17", "in", "all"]
    assert "node-1 cpu 2, node-2 cpu 7500m, node-3 cpu 7500m" in hostler("reservation", "get", "night").out
    after = hostler("reservation", "edit", "night", "--total", "cpu=3")
    assert (after.code, after.out) == (0, f"reservation {filled}/night: cpu 1 on each of 3 hosts\n"), after.err
    both = hostler("reservation", "edit", "night", "--total", "cpu=3", "--amounts", "cpu=1")
    assert (both.code, both.error) == (2, "give either --amounts or --total")


def test_reservation_of_all_room_needs_yes_without_a_terminal(filled):
    question = f"No host would have cpu left for others than project {filled}. Reserve it?"
    for size in (("--amounts", "cpu=8"), ("--total", "cpu=18")):
        refused = hostler("reservation", "create", "night", *size)
        assert (refused.code, refused.error) == (2, f"{question} Cannot prompt: standard input is not a terminal")
        assert refused.hint == "--yes confirms it"
        assert hostler("reservation", "get", "night").code == 2
    made = hostler("reservation", "create", "night", "--amounts", "cpu=1")
    assert made.code == 0, made.err
    refused = hostler("reservation", "edit", "night", "--total", "cpu=18")
    assert (refused.code, refused.hint) == (2, "--yes confirms it")
    assert hostler("reservation", "edit", "night", "--until", "2090-01-01T00:00:00Z").code == 0
    edited = hostler("reservation", "edit", "night", "--total", "cpu=18", "--yes")
    assert edited.code == 0, edited.err
    assert f"no host has cpu left for others than project {filled}" in edited.err
