"""``hostler host list`` and ``get`` show what reservations keep."""

from __future__ import annotations

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
        assert f"cpu 500m by {project}/day" in lines
        assert f"cpu 1, memory 2Gi by {project}/night" in lines
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
    neither = hostler("reservation", "create", "all")
    assert (neither.code, neither.error) == (2, "give either --amounts or --total")
