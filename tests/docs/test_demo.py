"""``make demo`` runs to its end, and leaves the report where it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.early

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_with_a_comparison_and_the_path_of_a_report(tmp_path):
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("out"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "demo/run"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    report = tmp_path / "demo" / "out" / "report.html"
    assert f"The report: {report}" in done.stdout
    assert done.stdout.count("\n$ hostler ") >= 5
    for text in ("policy spread", "policy pack", "policy fgd", "fits nowhere", "identical", "What to type next"):
        assert text in done.stdout
    assert "dot_product" in done.stdout
    assert "the demo's cluster and its files are removed" in done.stdout or "is left out" in done.stdout
    assert report.read_text().startswith("<!DOCTYPE html>")
