"""What ``vm explain`` advises can be done with the command that it names, and helps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.cli_in_process import Result, hostler
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")


def waiting(name: str, *words: str) -> str:
    """Create a VM that finds no place, and return what is advised."""
    result = hostler("vm", "create", *words, "--", name)
    assert result.code == 0, result.err
    wait_until(lambda: bool(hostler("vm", "get", name, "-o", "json").json["why"]))
    said = hostler("vm", "explain", name).out
    [line] = [line for line in said.splitlines() if line.startswith("It would fit on ")]
    return line


def done(advice: str) -> Result:
    """Do as was advised, by the first command that is named."""
    found = re.search(r"'hostler ([^']+)'", advice)
    assert found is not None, advice
    result = hostler(*shlex.split(found[1]))
    assert result.code == 0, result.err
    return result


def runs(name: str) -> None:
    wait_until(lambda: hostler("vm", "get", name, "-o", "json").json["state"] == "running")


def test_a_vm_too_large_is_made_smaller(project: str) -> None:
    advice = waiting("huge", "--cpu", "64", "--memory", "1Gi")
    assert advice.endswith(f"ask for 56 cpu less (at most 8) ('hostler vm resize {project}/huge --cpu 8').")
    done(advice)
    runs("huge")


def test_a_selector_that_no_host_matches_is_taken_away(project: str) -> None:
    advice = waiting("picky", *SMALL, "--selector", "disk=ssd")
    assert advice.endswith(f"do not ask for disk=ssd ('hostler vm resize {project}/picky --selector disk-').")
    done(advice)
    runs("picky")


def test_a_host_without_room_is_no_longer_the_only_one(project: str) -> None:
    result = hostler("vm", "create", "large", "--cpu", "8", "--memory", "1Gi", "--host", "node-1", "--wait", "300")
    assert result.code == 0, result.err
    advice = waiting("pinned", *SMALL, "--host", "node-1")
    other = "name node-2 instead, or no host"
    assert advice.endswith(f"{other} ('hostler vm resize {project}/pinned --host node-2', or --host \"\").")
    done(advice)
    runs("pinned")
    assert hostler("vm", "get", "pinned", "-o", "json").json["host"] == "node-2"


def test_terms_that_have_no_option_are_changed_by_a_file(project: str, tmp_path: Path) -> None:
    file = tmp_path / "vm.yaml"
    file.write_text("cpu: 1\nmemory: 1Gi\nhost_affinity:\n- expressions: [{key: zone, operator: In, values: [moon]}]\n")
    advice = waiting("near", "-f", str(file))
    assert f"'hostler vm resize {project}/near -f FILE', with host_affinity in it as they should be" in advice
    change = tmp_path / "FILE"
    change.write_text("host_affinity: null\n")
    result = hostler("vm", "resize", "near", "-f", change)
    assert result.code == 0, result.err
    runs("near")


@pytest.mark.usefixtures("project")
def test_a_host_and_a_strategy_are_set_and_set_back() -> None:
    assert hostler("vm", "create", "web", *SMALL, "--wait", "300").code == 0
    words = ("--host", "node-3", "--selector", "kubernetes.io/hostname=node-3", "--strategy", "best_fit")
    assert hostler("vm", "resize", "web", *words, "--reserve", "--when-lost", "restart").code == 0
    spec = hostler("vm", "get", "web", "-o", "json").json["spec"]
    assert (spec["host_name"], spec["host_selector"]) == ("node-3", {"kubernetes.io/hostname": "node-3"})
    assert (spec["strategy"], spec["reserve"], spec["when_lost"]) == ("best_fit", True, "restart")
    back = (
        "--host",
        "",
        "--selector",
        "kubernetes.io/hostname-",
        "--strategy",
        "",
        "--no-reserve",
        "--when-lost",
        "keep",
    )
    assert hostler("vm", "resize", "web", *back).code == 0
    spec = hostler("vm", "get", "web", "-o", "json").json["spec"]
    assert {"host_name", "host_selector", "strategy", "reserve", "when_lost"}.isdisjoint(spec)


def test_what_stands_below_spec_counts_and_options_beat_it(project: str, tmp_path: Path) -> None:
    assert hostler("vm", "create", "web", *SMALL, "--wait", "300").code == 0
    file = tmp_path / "vm.json"
    file.write_text('{"spec": {"priority": 0, "cpu": "2", "labels": {"tier": "web"}}}')
    assert hostler("vm", "resize", "web", "-f", file, "--cpu", "3", "--wait", "300").code == 0
    spec = hostler("vm", "get", f"{project}/web", "-o", "json").json["spec"]
    assert (spec["cpu"], spec["labels"]) == ("3", {"tier": "web"})


@pytest.mark.usefixtures("project")
def test_a_file_that_says_nothing_of_a_vm_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("- cpu\n- memory\n")
    result = hostler("vm", "resize", "web", "-f", file)
    assert result.code == 2
    assert result.error.endswith("it has no field of a VM that can change")


@pytest.mark.usefixtures("project")
def test_what_keeps_a_vm_from_moving_is_reported_with_a_cure() -> None:
    assert hostler("vm", "create", "web", *SMALL, "--host", "node-1", "--wait", "300").code == 0
    result = hostler("vm", "migrate", "web", "--to", "node-2")
    assert result.error == "VM web may only be on host node-1"
    assert result.hint == "allow other hosts first: 'hostler vm resize web --host NAME', or --host '' for any"
