"""Sweeps: every result has its own file, stopped sweeps continue, and failed cells stop no others."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.errors import InputError
from hostler.sim.sweeps.executors import run_here
from hostler.sim.sweeps.grids import Grid, read_seeds
from hostler.sim.sweeps.sweep import ResultFolder, find_progress, run_sweep
from tests.cli.cli_in_process import hostler
from tests.sim.small_openb import small_cells, write_small_openb
from tests.wait import GIVE_UP_S, wait_for_exit, wait_until

# Once three cells are done, the others wait until the test lets them continue.
SLOW = """
import time
from pathlib import Path

from hostler.model import Policy

folder = Path({folder!r})
while len(list(folder.glob("out/cells/*.json"))) >= 3 and not (folder / "go").exists():
    time.sleep(0.02)
SLOW = Policy(name="slow")
"""
BROKEN = """
class Moody:
    name = "moody"
    normalizer = "none"

    def __init__(self, view, args):
        pass

    def evaluate(self, spec, rows):
        raise RuntimeError("not to my taste")
"""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return write_small_openb(tmp_path_factory.mktemp("openb"))


def sweep(folder, data_dir, *words, seeds="1-3", policies="fgd,random"):
    grid = ("--policies", policies, "--seeds", seeds) if policies else ()
    return hostler("sim", "sweep", folder, *grid, "--data-dir", data_dir, *words)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


def test_processes_write_the_same_files_as_one(data_dir, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert sweep(one, data_dir, "--jobs", "1").code == 0
    assert sweep(two, data_dir, "--jobs", "2").code == 0
    assert len(files(one)) == 6
    assert files(one) == files(two)


def test_what_is_there_is_not_run_again(data_dir, tmp_path):
    assert sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-2").out == "4 cells: 0 were there, 4 ran, 0 failed\n"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert sweep(tmp_path, data_dir, "--jobs", "1").out == "6 cells: 4 were there, 2 ran, 0 failed\n"
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_broken_file_counts_as_none(data_dir, tmp_path):
    sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-1")
    whole = files(tmp_path)
    for name, content in whole.items():
        (tmp_path / "cells" / name).write_bytes(content[:100])
    assert sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-1").out == "2 cells: 0 were there, 2 ran, 0 failed\n"
    assert files(tmp_path) == whole


def test_a_damaged_result_is_named_instead_of_left_out(data_dir, tmp_path):
    sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-1")
    damaged = min((tmp_path / "cells").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:50])
    told = hostler("sim", "sweep", tmp_path, "--results")
    assert told.code == 2
    assert damaged.name in told.err


def test_what_a_killed_run_left_half_written_is_swept_up(data_dir, tmp_path):
    sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-1")
    whole = files(tmp_path)
    (tmp_path / "cells" / ".abc.123.part").write_bytes(b"half")
    sweep(tmp_path, data_dir, "--jobs", "1", seeds="1-2")
    assert set(whole) < set(files(tmp_path))
    assert not list((tmp_path / "cells").glob(".*"))


def test_a_cell_that_fails_is_kept_with_its_error_and_others_go_on(data_dir, tmp_path):
    plugin = tmp_path / "moody.py"
    plugin.write_text(BROKEN)
    words = ("--jobs", "1", "--plugin", plugin)
    done = sweep(tmp_path / "out", data_dir, *words, seeds="1-2", policies="moody,fgd")
    assert done.code == 1
    assert done.out == "4 cells: 0 were there, 4 ran, 2 failed\n"
    assert "not to my taste" in done.err
    again = sweep(tmp_path / "out", data_dir, *words, seeds="1-2", policies="moody,fgd")
    assert (again.code, again.out) == (1, "4 cells: 4 were there, 0 ran, 2 failed\n")
    retried = sweep(tmp_path / "out", data_dir, *words, "--retry", seeds="1-2", policies="moody,fgd")
    assert retried.out == "4 cells: 2 were there, 2 ran, 2 failed\n"
    shown = hostler("sim", "sweep", tmp_path / "out", "--results")
    assert shown.out.count("not to my taste") == 2


def test_results_come_as_table_json_csv_and_parquet(data_dir, tmp_path):
    polars = pytest.importorskip("polars")
    sweep(tmp_path / "out", data_dir, "--jobs", "1")
    show = ("sim", "sweep", tmp_path / "out", "--results")
    table, text = hostler(*show), hostler(*show, "-o", "csv")
    assert len(table.lines) == 7
    assert table.lines[0].split()[:6] == ["WORKLOAD", "POLICY", "TUNE", "SEED", "GPU", "PERCENT"]
    rows = list(csv.DictReader(io.StringIO(text.out)))
    assert [(row["policy"], row["seed"]) for row in rows[:2]] == [("fgd", "1"), ("fgd", "2")]
    assert hostler(*show, "-o", "json").json[0]["gpu_percent"] == float(rows[0]["gpu_percent"])
    assert hostler(*show, "-O", tmp_path / "rows.parquet").code == 0
    assert polars.read_parquet(tmp_path / "rows.parquet")["gpu_percent"].to_list() == [
        float(row["gpu_percent"]) for row in rows
    ]


def test_seconds_are_kept_beside_the_results(data_dir, tmp_path):
    sweep(tmp_path, data_dir, "--jobs", "1")
    lines = (tmp_path / "seconds.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in lines} == {name.removesuffix(".json") for name in files(tmp_path)}


class TestStopped:
    """A sweep in a process of its own, which is stopped on the way."""

    def start(self, folder: Path, data_dir: Path) -> tuple[subprocess.Popen[str], list[str]]:
        plugin = folder / "slow.py"
        plugin.write_text(SLOW.format(folder=str(folder)))
        words = ["sim", "sweep", str(folder / "out"), "--policies", "slow", "--plugin", str(plugin), "--jobs", "2"]
        words += ["--seeds", "100-115", "--data-dir", str(data_dir)]
        command = [sys.executable, "-m", "hostler", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), words

    def stop(self, process: subprocess.Popen[str], folder: Path, number: int) -> list[int]:
        """Stop it when three cells are done; return the ids of the processes that it had started."""
        wait_until(lambda: len(list((folder / "out").glob("cells/*.json"))) >= 3)
        children = descendants(process.pid)
        process.send_signal(number)
        return children

    def test_a_killed_one_goes_on_where_it_was(self, data_dir, tmp_path):
        process, words = self.start(tmp_path, data_dir)
        children = self.stop(process, tmp_path, signal.SIGKILL)
        wait_for_exit(process)
        (tmp_path / "go").touch()
        process.communicate(timeout=GIVE_UP_S)
        wait_until(lambda: not any(is_running(child) for child in children))
        done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").glob("*.json")}
        assert 3 <= len(done) < 16
        again = hostler(*words)
        assert again.out == f"16 cells: {len(done)} were there, {16 - len(done)} ran, 0 failed\n"
        assert {name: (tmp_path / "out" / "cells" / name).stat().st_mtime_ns for name in done} == done
        ran = [line.split(",")[0] for line in (tmp_path / "out" / "seconds.csv").read_text().splitlines()]
        assert len(ran) == len(set(ran))

    def test_an_interrupted_one_ends_its_processes_and_says_how_far_it_is(self, data_dir, tmp_path):
        process, _ = self.start(tmp_path, data_dir)
        children = self.stop(process, tmp_path, signal.SIGINT)
        out, err = process.communicate(timeout=GIVE_UP_S)
        assert process.returncode == 130
        assert out == ""
        assert "of 16 cells are done; the same command continues from there" in err
        assert "Traceback" not in err
        wait_until(lambda: not any(is_running(child) for child in children))


class TestDask:
    """Through the command; a real cluster is in the tests of executors."""

    def test_an_address_where_nobody_answers_is_reported(self, data_dir, tmp_path):
        done = sweep(tmp_path / "out", data_dir, "--dask", "tcp://127.0.0.1:9")
        assert done.code == 3
        assert done.error == "no Dask scheduler answers at tcp://127.0.0.1:9"
        assert "dask scheduler" in done.hint


class TestGrids:
    """Grids from options and files."""

    def write(self, folder: Path, body: str) -> Path:
        file = folder / "grid.yaml"
        file.write_text(f"apiVersion: hostler/v1\nkind: Sweep\n{body}")
        return file

    def run(self, folder: Path, data_dir: Path, body: str):
        return sweep(folder / "out", data_dir, "--file", self.write(folder, body), "--jobs", "1", policies="")

    def test_a_file_gives_every_combination(self, data_dir, tmp_path):
        body = (
            "workloads: [default, cpu050]\npolicies: [fgd, mine]\nseeds: [1, 2]\ntunes: [1.0, 1.3]\n"
            "define: [{name: mine, extends: fgd, ties: [name]}]\n"
        )
        assert self.run(tmp_path, data_dir, body).out == "16 cells: 0 were there, 16 ran, 0 failed\n"
        rows = hostler("sim", "sweep", tmp_path / "out", "--results", "-o", "json").json
        assert len({(row["workload"], row["policy"], row["seed"], row["tune"]) for row in rows}) == 16

    def test_a_policy_that_is_edited_gives_other_cells(self, data_dir, tmp_path):
        body = "workloads: [default]\npolicies: [mine]\nseeds: [1]\ndefine: [{name: mine, devices: DEVICES}]\n"
        for devices in ("best", "worst"):
            done = self.run(tmp_path, data_dir, body.replace("DEVICES", devices))
            assert done.out == "1 cell: 0 were there, 1 ran, 0 failed\n"

    def test_scenarios_stand_beside_workloads(self, data_dir, tmp_path):
        (tmp_path / "busy.yaml").write_text(
            "apiVersion: hostler/v1\nkind: Scenario\nhosts: [{name: host, capacity: {cpu: 4}}]\n"
            "arrivals: [{guest: {name: web, requests: {cpu: 1}}, count: 5}]\n"
        )
        body = "workloads: [default]\nscenarios: [busy.yaml]\npolicies: [pack]\nseeds: [1, 2]\n"
        done = self.run(tmp_path, data_dir, body)
        assert (done.out, done.err) == ("4 cells: 0 were there, 4 ran, 0 failed\n", "")

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ("workloads: [default]\npolicies: [fgd]\nseed: 3\n", "grid.yaml:5: unknown key 'seed'"),
            ("workloads: [default]\n", "policies is empty"),
            ("policies: [fgd]\n", "neither workloads nor scenarios"),
            ("workloads: [default]\npolicies: [fgd]\nruns: 0\n", "grid.yaml:5: runs must be an integer >= 1"),
            ("workloads: [default]\npolicies: [fgd]\nruns: 2\nseeds: [1]\n", "grid.yaml:6: seeds"),
            ("workloads: [default]\npolicies: [fgd]\nseeds: many\n", "grid.yaml:5: seeds: 'many' are no seeds"),
            ("workloads: [huge]\npolicies: [fgd]\n", "no workload 'huge'"),
            ("workloads: [default]\npolicies: [nobody]\n", "no policy 'nobody'"),
            ("workloads: [default]\npolicies: [fgd]\ntunes: [-1]\n", "tunes"),
        ],
    )
    def test_a_file_that_is_wrong_is_refused_and_nothing_runs(self, data_dir, tmp_path, body, problem):
        done = self.run(tmp_path, data_dir, body)
        assert done.code == 2
        assert problem in done.error
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("seeds", ["42", "'42'", "0"])
    def test_lone_number_as_seeds_is_rejected_with_both_forms(self, data_dir, tmp_path, seeds):
        body = f"workloads: [default]\npolicies: [fgd]\nseeds: {seeds}\n"
        done, number = self.run(tmp_path, data_dir, body), seeds.strip("'")
        assert done.code == 2
        assert done.error.endswith(f"grid.yaml:5: seeds: {number} may mean one seed or {number} of them")
        assert done.hint == f"'runs: {number}' runs {number} seeds; 'seeds: [{number}]' runs seed {number} alone"
        assert not (tmp_path / "out").exists()

    def test_runs_of_a_file_counts_seeds_from_42(self, data_dir, tmp_path):
        (tmp_path / "busy.yaml").write_text(
            "apiVersion: hostler/v1\nkind: Scenario\nhosts: [{name: host, capacity: {cpu: 4}}]\n"
            "arrivals: [{guest: {name: web, requests: {cpu: 1}}, count: 5}]\n"
        )
        body = "scenarios: [busy.yaml]\npolicies: [pack]\nruns: 2\n"
        assert self.run(tmp_path, data_dir, body).out == "2 cells: 0 were there, 2 ran, 0 failed\n"
        listed = self.run(tmp_path, data_dir, body.replace("runs: 2", "seeds: [42, 43]"))
        assert listed.out == "2 cells: 2 were there, 0 ran, 0 failed\n"

    def test_options_beside_a_file_are_refused(self, data_dir, tmp_path):
        file = self.write(tmp_path, "workloads: [default]\npolicies: [fgd]\n")
        assert "leave out its seeds" in sweep(tmp_path, data_dir, "--file", file, "--seeds", "3-5", policies="").error
        assert "leave out its runs" in sweep(tmp_path, data_dir, "--file", file, "--runs", "3", policies="").error

    def test_a_sweep_needs_policies(self, data_dir, tmp_path):
        assert "name the policies" in sweep(tmp_path, data_dir, policies="").error

    def test_a_folder_without_results_is_reported(self, tmp_path):
        assert "has no results" in hostler("sim", "sweep", tmp_path, "--results").error

    @pytest.mark.parametrize(
        ("given", "seeds"),
        [("7-9", (7, 8, 9)), ("5,1,5", (5, 1)), ([9, 8], (9, 8)), ([7], (7,)), ("4-4", (4,))],
    )
    def test_seeds_are_a_range_or_a_list(self, given, seeds):
        assert read_seeds(given) == seeds

    @pytest.mark.parametrize("given", ["", "a", "1-2-3", "9-1", "1,2-3", "-4", "3", [], "99999999999"])
    def test_other_words_are_no_seeds(self, given):
        with pytest.raises(InputError):
            read_seeds(given)

    def test_equal_cells_are_run_once(self, data_dir, tmp_path):
        cells = small_cells(data_dir, 1)
        assert len(find_progress([*cells, *cells], ResultFolder(tmp_path)).left) == 2
        assert len(list(Grid(workloads=("default",), policies=("a", "b"), seeds=(1, 2), tunes=(1.0, 2.0)).cells())) == 8


def test_a_result_says_what_was_run_and_by_which_version(data_dir, tmp_path):
    folder = ResultFolder(tmp_path)
    cell = small_cells(data_dir, 1)[0]
    run_sweep([cell], folder, run_here, lambda result: None)
    found = json.loads(folder.file_of(cell).read_text())
    assert found["cell"]["policy"] == "fgd"
    assert found["hostler"]
    assert len(found["curves"]["alloc"]) == 131


def test_a_folder_that_cannot_be_made_is_reported(data_dir, tmp_path):
    (tmp_path / "file").write_text("")
    done = sweep(tmp_path / "file" / "out", data_dir, "--jobs", "1")
    assert done.code == 2
    assert "cannot be written" in done.error


def descendants(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started, and theirs."""
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(below for child in children for below in descendants(child))]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
