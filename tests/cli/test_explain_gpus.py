"""What ``explain`` says about GPUs: it counts whole ones, and proposes fewer of them."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write


@pytest.fixture
def explain(tmp_path):
    """Return a function that explains a guest with these device requests on a host where 'other' holds some."""

    def run(devices: str, gpus: int, held: str = ""):
        other = f"{{name: other, host: a, priority: 9, devices: {held}}}, " if held else ""
        host = f"{{name: a, devices: [{{kind: gpu, count: {gpus}}}]}}"
        body = f"hosts: [{host}]\nguests: [{other}{{name: train, devices: {devices}}}]\n"
        return hostler("explain", "-f", write(tmp_path / "f.yaml", body), "train")

    return run


def _cure(text: str) -> str:
    return f"It would fit on a after the smallest change: {text}."


@pytest.mark.parametrize(
    ("gpus", "held", "missing", "cure"),
    [
        (2, "", "1 of 3 missing", "ask for 1 gpu less (at most 2)"),
        (3, "[{kind: gpu}]", "1 of 3 missing", "ask for 1 gpu less (at most 2)"),
        (3, "[{kind: gpu, milli: 300}]", "1 of 3 missing", "ask for 1 gpu less (at most 2)"),
        (4, "[{kind: gpu, count: 3}]", "2 of 3 missing", "ask for 2 gpu less (at most 1)"),
    ],
)
def test_whole_gpus_that_are_free_are_proposed(explain, gpus, held, missing, cure):
    found = explain("[{kind: gpu, count: 3}]", gpus, held)
    assert f"insufficient gpu: {missing}" in found.out
    assert _cure(cure) in found.lines


def test_share_of_one_gpu_is_counted_in_gpus(explain):
    found = explain("[{kind: gpu}]", 1, "[{kind: gpu, milli: 300}]")
    assert _cure("ask for 0.3 gpu less (at most 0.7)") in found.lines
    shared = explain("[{kind: gpu, milli: 800}]", 1, "[{kind: gpu, milli: 300}]")
    assert "insufficient gpu: 0.1 of 0.8 missing" in shared.out


def test_smaller_share_of_each_gpu_is_proposed_if_it_asks_for_shares(explain):
    found = explain("[{kind: gpu, count: 2, milli: 800}]", 2, "[{kind: gpu, milli: 300}]")
    assert _cure("ask for at most 0.7 of each gpu (0.2 less in all)") in found.lines


def test_fewer_gpus_of_the_second_request_are_proposed(explain):
    found = explain("[{kind: gpu, milli: 500}, {kind: gpu, count: 3}]", 3)
    assert _cure("ask for 1 gpu less (at most 2)") in found.lines


def test_without_any_free_gpu_no_smaller_request_is_proposed(explain):
    found = explain("[{kind: gpu, count: 2}]", 2, "[{kind: gpu, count: 2}]")
    assert "No change of up to three parts would help." in found.lines
