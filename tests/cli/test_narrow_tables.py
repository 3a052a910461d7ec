"""Tables on a narrow terminal: headings stay whole, no line is too long, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from hostler.cli.output.terminal import print_table

README = Path(__file__).parents[2] / "README.md"
COLUMNS = [
    ("NAME", "left"),
    ("STATE", "left"),
    ("HOST", "left"),
    ("CPU", "right"),
    ("MEMORY", "right"),
    ("GUARANTEED CPU", "right"),
    ("LARGEST MEMORY", "right"),
    ("LABELS", "left"),
    ("PROBLEM", "left"),
]
ROWS = [
    ["web-0", "running", "host-01", "2", "4Gi", "16", "512Gi", "zone=north,disk=ssd", ""],
    ["database-primary-0", "pending", "-", "16", "128Gi", "16", "512Gi", "", "0 of 20 hosts: 12 insufficient cpu"],
]


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return a function that prints a table on a terminal and returns its lines."""

    def run(width: int, columns=COLUMNS, rows=ROWS) -> list[str]:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(columns, rows)
        return click.unstyle(capsys.readouterr().out).splitlines()

    return run


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_headings_and_names_stay_whole_on_a_narrow_terminal(printed, width):
    lines = printed(width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).replace(":", " ").split()
    for heading, _ in COLUMNS:
        assert set(heading.split()) <= set(words)
    for cell in (cell for row in ROWS for cell in row):
        assert set(cell.replace(":", "").split()) <= set(words), cell


def test_columns_that_do_not_fit_stand_below_their_row(printed):
    assert [line.rstrip() for line in printed(60)] == [
        "NAME                STATE    HOST     CPU  MEMORY",
        "web-0               running  host-01    2     4Gi",
        "    GUARANTEED CPU: 16  LARGEST MEMORY: 512Gi",
        "    LABELS: zone=north,disk=ssd",
        "database-primary-0  pending  -         16   128Gi",
        "    GUARANTEED CPU: 16  LARGEST MEMORY: 512Gi",
        "    PROBLEM: 0 of 20 hosts: 12 insufficient cpu",
    ]


def test_long_sentence_in_the_last_column_is_wrapped_in_place(printed):
    lines = printed(50, [("GUEST", "left"), ("REASON", "left")], [["web-0", "insufficient cpu, " * 4]])
    assert lines[0].split() == ["GUEST", "REASON"]
    assert max(map(len, lines)) <= 50
    assert " ".join(lines[1:]).split() == ["web-0", *("insufficient cpu, " * 4).split()]


def test_table_that_fits_is_printed_as_before(printed):
    assert [line.rstrip() for line in printed(80, COLUMNS[:3], [row[:3] for row in ROWS])] == [
        "NAME                STATE    HOST",
        "web-0               running  host-01",
        "database-primary-0  pending  -",
    ]


def test_tables_of_the_readme_fit_80_columns():
    table = [line for line in README.read_text().splitlines() if line.startswith(("WORKLOAD", "default "))]
    assert len(table) == 4
    assert max(map(len, table)) <= 80
