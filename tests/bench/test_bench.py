"""The benchmark runs at a tenth of its size and writes what it promises. No time is asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.results import Report, Row

pytestmark = pytest.mark.early

ROOT = Path(__file__).resolve().parents[2]


ROWS = {
    "engine": {"spread equal", "spread mixed", "fgd openb", "alone median", "growth mixed", "fork", "restore"},
    "sim": {"experiment", "all experiments", "scenario", "scenario, memory", "report"},
}


@pytest.mark.parametrize("bench", sorted(ROWS))
def test_quick_bench_prints_a_table_and_writes_its_figures(bench, tmp_path):
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", bench, "--quick", "-o", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(path.read_bytes(), type=Report)
    assert report.bench == bench
    assert report.quick
    names = [row.name for row in report.rows]
    assert len(set(names)) == len(names)
    assert ROWS[bench] <= set(names)
    for row in report.rows:
        assert row.measured > 0, row
        assert row.measured in row.runs, row
        assert row.verdict == "info", "a quick run judges nothing"
        assert row.name in done.stdout


@pytest.mark.parametrize(
    ("sense", "measured", "ratio", "verdict"),
    [
        ("at least", 100.0, 2.0, "pass"),
        ("at least", 25.0, 0.5, "miss"),
        ("at least", 50.0, 1.0, "pass"),
        ("at most", 25.0, 2.0, "pass"),
        ("at most", 100.0, 0.5, "miss"),
    ],
)
def test_a_ratio_of_one_and_more_passes(sense, measured, ratio, verdict):
    row = Row(name="n", what="w", unit="/s", measured=measured, target=50.0, sense=sense).judged()
    assert (row.ratio, row.verdict) == (ratio, verdict)


def test_a_row_without_a_target_is_information():
    assert Row(name="n", what="w", unit="/s", measured=1.0).judged().verdict == "info"
