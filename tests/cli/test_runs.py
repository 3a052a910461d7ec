"""A run's clock: it moves on only while something that happened may help a guest that waits."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cli.cli_in_process import hostler, write

CONFIG = "apiVersion: hostler/v1\nkind: Config\n"
NEAR = "- {name: near, affinity: [{topology: zone, selector: {app: db}}]}\n"
DB = "- {name: db, labels: {app: db}, requests: {cpu: 1}}\n"


@pytest.fixture
def steps(tmp_path):
    """Return a function that places guests on one host and returns the steps of the journal."""

    def run(guests: str, config: str = "", extra: str = "") -> list[str]:
        fleet = write(
            tmp_path / "f.yaml",
            f"{extra}hosts: [{{name: a, capacity: {{cpu: 4}}, labels: {{zone: x}}}}]\nguests:\n{guests}",
        )
        words = ["--config", str(write(tmp_path / "c.yaml", config, head=CONFIG))] if config else []
        journal = tmp_path / "j"
        assert hostler("place", "-f", fleet, *words, "--journal", journal).code in (0, 1)
        assert hostler("journal", "replay", journal).code == 0
        entries = hostler("journal", "show", journal, "--json").json["entries"]
        return [told(entry) for entry in entries if entry["entry"] == "stepped"]

    return run


def told(step) -> str:
    """Say in words when a step was and what it did."""
    kinds = Counter(action["action"] for action in step.get("actions", ()))
    return f"at {step['now']}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}"


def test_without_anybody_who_could_be_helped_time_stands_still(steps):
    assert steps(DB + "- {name: big, requests: {cpu: 9}}\n") == ["at 0: 1 bind, 1 hold"]


def test_a_guest_that_a_placement_helps_is_placed_in_the_same_instant(steps):
    assert steps(NEAR + DB) == ["at 0: 1 hold, 1 bind", "at 0: 1 bind"]


def test_large_gang_that_a_placement_helps_is_placed_in_the_same_instant(steps):
    gang = "gangs: [{name: team, min_count: 130}]\n"
    members = NEAR.replace("name: near", "name: near, count: 130, gang: team")
    assert steps(members + DB, extra=gang)[-1] == "at 0: 130 bind"


@pytest.mark.parametrize("timeout", ["1s", "1ns", "20s"])
def test_time_does_not_come_to_the_deadline_of_what_nobody_prepares_here(steps, timeout):
    waiting = "- {name: slow, prepare: [disk]}\n"
    found = steps(waiting + NEAR + DB, f"queue: {{prepare_timeout: {timeout}}}\n")
    assert not any("abandon" in line for line in found)
    assert len(found) < 5


def test_retries_that_come_very_often_end_all_the_same(steps):
    queue = "queue: {backoff_initial: 1ns, backoff_max: 1ns, flush_after: 1ns, jitter_percent: 0}\n"
    assert len(steps(NEAR + DB + "- {name: big, requests: {cpu: 9}}\n", queue)) < 20
