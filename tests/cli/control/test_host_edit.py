"""``hostler host edit``: how much of a host VMs may have, and which of them stay away."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler

pytestmark = pytest.mark.usefixtures("project")


def edit(*words: str):
    return hostler("host", "edit", "node-3", *words)


def shown() -> dict[str, str]:
    """Return what is shown of the host, by heading."""
    lines = [line.partition("  ") for line in hostler("host", "get", "node-3").lines]
    return {heading: text.strip() for heading, _, text in lines}


@pytest.fixture(autouse=True)
def as_it_was():
    """Give the host back as it was: other tests use it too."""
    yield
    assert edit("--overcommit", "", "--reserve", "", "--taint", "").out == "node-3: VMs may have cpu 8, memory 16Gi\n"


def test_what_a_host_may_give_is_changed_and_shown():
    result = edit("--overcommit", "cpu=1.5", "--reserve", "cpu=1,memory=4Gi")
    assert (result.code, result.out) == (0, "node-3: VMs may have cpu 11, memory 12Gi\n")
    assert (shown()["Overcommit"], shown()["Kept back"]) == ("cpu 1.5", "cpu 1, memory 4Gi")
    assert edit("--reserve", "").out == "node-3: VMs may have cpu 12, memory 16Gi\n"


def test_a_taint_keeps_vms_away_that_do_not_tolerate_it():
    assert edit("--taint", "gpu=yes", "--taint", "old:PreferNoSchedule").out == (
        "node-3: VMs may have cpu 8, memory 16Gi; taints: gpu=yes:NoSchedule, old:PreferNoSchedule\n"
    )
    assert shown()["Taints"] == "gpu=yes:NoSchedule, old:PreferNoSchedule"
    assert edit("--taint", "").out == "node-3: VMs may have cpu 8, memory 16Gi\n"


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ((), "nothing to change", "give --overcommit, --reserve or --taint"),
        (
            ("--overcommit", "cpu=2x"),
            "overcommit.cpu: amount '2x' is not a quantity",
            'write a plain number such as "1.5"',
        ),
        (
            ("--reserve", "memory=2x"),
            "reserve.memory: amount '2x' is not a quantity",
            'write it as "2Gi", "512Mi" or a number of bytes',
        ),
        (("--reserve", "gpu=1"), "reserve: 'gpu' is no resource of hosts", "cpu, memory or storage"),
        (
            ("--taint", "gpu:Never"),
            "--taint 'gpu:Never' is not a taint",
            "write --taint KEY=VALUE:EFFECT, with one of NoSchedule, PreferNoSchedule, NoExecute",
        ),
    ],
)
def test_what_can_never_be_right_is_refused_with_what_would_be(words, error, hint):
    result = edit(*words)
    assert (result.code, result.error, result.hint) == (2, error, hint)
