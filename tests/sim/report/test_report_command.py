"""``hostler sim report``: files in, one page out, or a clear refusal."""

from __future__ import annotations

import msgspec
import pytest

from hostler.sim.report import report_page
from hostler.sim.report.runs import Result as Kept
from hostler.sim.sweeps.cells import CellResult as Result
from hostler.sim.sweeps.cells import CellRun, SweepCell, cell_key
from hostler.sim.sweeps.sweep import ResultFolder
from tests.cli.cli_in_process import hostler
from tests.sim.report.samples import filled, played


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
        return path

    return write


def made(tmp_path, *words):
    target = tmp_path / "report.html"
    result = hostler("sim", "report", *words, "-O", target)
    return result, target


def test_files_and_lists_of_results_become_one_page(written, tmp_path):
    one = filled("fgd")
    more: list[Kept] = [filled("first_fit"), played()]
    result, target = made(tmp_path, written("one.json", one), written("more.json", more))
    assert result.code == 0, result.err
    assert target.read_text() == report_page([one, *more])


def test_report_says_what_it_wrote(written, tmp_path):
    result, target = made(tmp_path, written("one.json", [filled("fgd"), filled("first_fit")]))
    assert result.out == f"wrote {target}: 2 runs, {target.stat().st_size:,} bytes\n"


def test_a_result_may_come_from_standard_input(tmp_path):
    result = hostler("sim", "report", "-", "-O", "-", stdin=msgspec.json.encode(filled()).decode())
    assert result.out == report_page([filled()])


def test_the_folder_of_a_sweep_becomes_a_page(tmp_path):
    folder = ResultFolder(tmp_path / "results")
    folder.prepare()
    cell = SweepCell(policy="fgd")
    figures = {"gpu_percent": 91.25, "failed": 5.0, "frag_percent": 3.0}
    kept = Result(key=cell_key(cell), hostler="0", cell=cell, figures=figures)
    folder.keep(CellRun(msgspec.json.encode(kept), 1.0))
    result, target = made(tmp_path, folder.path)
    assert result.code == 0, result.err
    assert "91.25" in target.read_text()


def test_sweep_of_scenarios_keeps_its_series_for_the_page(tmp_path):
    scenario = tmp_path / "busy.yaml"
    scenario.write_text(
        "apiVersion: hostler/v1\nkind: Scenario\nhosts: [{name: host, count: 2, capacity: {cpu: 4}}]\n"
        "arrivals: [{guest: {name: web, requests: {cpu: 1}}, count: 50}]\n"
    )
    folder = tmp_path / "results"
    words = ("--policies", "spread,pack", "--runs", "2", "--jobs", "1")
    assert hostler("sim", "sweep", folder, "--scenario", scenario, *words).code == 0
    alone = hostler("sim", "run", scenario, "--policy", "pack", "--seed", "42", "-o", "json").json
    (kept,) = (
        result.played()
        for result in ResultFolder(folder).results()
        if (result.cell.policy_name, result.cell.seed) == ("pack", 42)
    )
    assert kept is not None
    assert kept.waits.mean == alone["waits"]["mean"]
    assert list(kept.series.waiting) == alone["series"]["waiting"]
    assert kept.series.by_host == (), "the picture of all hosts is left out: it is most of the size"
    result, target = made(tmp_path, folder)
    assert result.code == 0, result.err
    page = target.read_text()
    assert "no measurements in time" not in page
    assert "Waiting times" in page


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "bad.json: this is no JSON"),
        (b"\xff\xfe", "bad.json: this is no JSON"),
        (b"[" * 100_000, "bad.json: this is no JSON"),
        (b"[]", "bad.json: there are no results in it"),
        (b"7", "bad.json: this is no result of a simulation"),
        (b'[{"policy": "fgd"}]', "bad.json: result 1: this is no result of a simulation"),
        (b'{"curves": {}}', "bad.json: this is no result of a simulation: Object missing required field `alloc`"),
        (filled(curves=type(filled().curves)((1.0,), (1.0,), (1.0,))), "bad.json: its curves have not 131 points"),
        (
            played(series=msgspec.structs.replace(played().series, cpu=(1.0,))),
            "bad.json: the columns of its series are not equally long",
        ),
        (
            played(series=msgspec.structs.replace(played().series, at_s=(4.0, 3.0, 2.0, 1.0, 0.0))),
            "bad.json: the times of its series are not in order",
        ),
        (
            Result(key="k", hostler="0", cell=SweepCell(policy="fgd")),
            "bad.json: the result has no figure 'gpu_percent'",
        ),
    ],
)
def test_a_bad_file_is_refused_by_name_and_nothing_is_written(written, tmp_path, content, problem):
    result, target = made(tmp_path, written("bad.json", content))
    assert result.code == 2
    assert problem in result.error
    assert not target.exists()


def test_a_file_that_is_not_there_is_reported(tmp_path):
    result, _ = made(tmp_path, tmp_path / "none.json")
    assert result.code == 2
    assert "none.json: cannot be read: no such file" in result.error


def test_a_folder_without_results_is_reported(tmp_path):
    result, _ = made(tmp_path, tmp_path)
    assert result.code == 2
    assert str(tmp_path) in result.error


def test_two_files_that_contradict_each_other_are_both_named(written, tmp_path):
    result, _ = made(tmp_path, written("a.json", filled()), written("b.json", filled(failed=3)))
    assert result.code == 2
    assert "b.json: there are two results of default, policy fgd, seed 42, and they differ" in result.error
    assert "a.json" in result.error


def test_a_refused_report_leaves_the_old_one_alone(written, tmp_path):
    (tmp_path / "report.html").write_text("old")
    result, target = made(tmp_path, written("bad.json", b"{"))
    assert result.code == 2
    assert target.read_text() == "old"
