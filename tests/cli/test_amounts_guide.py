"""The guide to amounts is true: its tables hold, and its files do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostler.config import parse_duration
from hostler.errors import QuantityError
from hostler.model import parse_quantity, parse_resource
from tests.cli.cli_in_process import hostler

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "amounts.md").read_text()
EXAMPLES = re.findall(r"^\| (\S+) \| [^|]+ \| `(\S+)` (cpu|memory|storage) \| ([0-9]+) (\S+) \|$", TEXT, re.MULTILINE)
DURATIONS = re.findall(r"^\| `([a-z]+)` \| ([0-9]+) nanoseconds? \|$", TEXT, re.MULTILINE)
PLAIN, DEVICES, FLEET = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("suffix", "amount", "resource", "expected", "unit"), EXAMPLES)
def test_an_example_is_the_amount_that_the_table_says(suffix, amount, resource, expected, unit):
    assert amount.endswith(suffix.strip("`")) or suffix == "none"
    assert parse_resource(resource, amount) == int(expected)
    assert unit == {"cpu": "milli-cores"}.get(resource, "bytes")


@pytest.mark.parametrize("suffix", ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
def test_every_suffix_has_a_row(suffix):
    assert parse_quantity(f"1{suffix}")
    assert (f"`{suffix}`" if suffix else "none") in [row[0] for row in EXAMPLES]


def test_case_counts_and_fractions_are_rounded_up():
    with pytest.raises(QuantityError):
        parse_quantity("1K")
    assert parse_resource("memory", "512m") == parse_resource("cpu", "0.1m") == 1


@pytest.mark.parametrize(("unit", "expected"), DURATIONS)
def test_a_duration_is_what_the_table_says(unit, expected):
    assert parse_duration(f"1{unit}") == int(expected)


def test_every_unit_of_durations_has_a_row():
    assert [unit for unit, _ in DURATIONS] == ["ns", "us", "ms", "s", "m", "h"]


def test_an_extended_resource_is_a_plain_amount(tmp_path):
    data = hostler("place", "-f", "-", "-o", "json", stdin=PLAIN).json
    assert data["hosts"][0]["capacity"]["nvidia.com/gpu"] == "4"
    assert data["guests"][0]["requests"]["nvidia.com/gpu"] == "2"
    assert "devices" not in data["hosts"][0]
    pod = tmp_path / "pod.yaml"
    pod.write_text(PLAIN.split("---\n")[1])
    assert hostler("capacity", "-f", "-", "--guest", pod, "-o", "json", stdin=PLAIN.split("---\n")[0]).json["fits"] == 2


def test_a_gpu_policy_notes_that_it_sees_no_gpu():
    result = hostler("place", "-f", "-", "--policy", "fgd", stdin=PLAIN)
    assert result.err == "note: policy 'fgd' scores by gpus, and no host has a device of kind gpu\n"


@pytest.mark.parametrize("text", [DEVICES, FLEET], ids=["manifests", "fleet"])
def test_devices_can_be_shared_and_are_told_apart(text):
    data = hostler("place", "-f", "-", "-o", "json", "--policy", "fgd", stdin=text).json
    assert data["hosts"][0]["devices"] == [{"kind": "gpu", "model": "T4", "count": 4}]
    (guest,) = data["guests"]
    assert (guest["host"], guest["devices"][0]["milli"], guest["on_devices"]) == ("worker", 500, [0])


def test_the_two_forms_do_not_meet():
    node, pod = PLAIN.split("---\n")[0], DEVICES.split("---\n")[1]
    result = hostler("place", "-f", "-", stdin=f"{node}---\n{pod}")
    assert result.code == 1
    assert "no device gpu" in result.out
