"""Comparisons: by hand from made-up results, and the command on a small trace."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path

import pytest

from hostler.errors import InputError, UnknownNameError
from hostler.sim.sweeps.cells import CellResult, SweepCell
from hostler.sim.sweeps.comparison import compare
from tests.cli.cli_in_process import hostler
from tests.sim.small_openb import SEEDS, write_small_openb

SAMPLES = Path(__file__).resolve().parents[2] / "data/samples"
JOBS, JOBS_HOSTS = SAMPLES / "jobs.csv", SAMPLES / "jobs.hosts.csv"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return write_small_openb(tmp_path_factory.mktemp("openb"))


def results(values: dict[str, list[float]], workload: str = "default", figure: str = "gpu_percent"):
    return [
        CellResult(
            key="", hostler="", cell=SweepCell(workload=workload, policy=policy, seed=seed), figures={figure: value}
        )
        for policy, column in values.items()
        for seed, value in enumerate(column)
    ]


class TestByHand:
    """Rows of made-up results."""

    def test_means_spreads_and_paired_intervals(self):
        first, second = compare(results({"a": [10, 20, 30], "b": [11, 22, 33]}))
        assert (first.mean, first.spread, first.difference, first.verdict) == (20, 10, None, None)
        assert (second.mean, second.spread, second.difference) == (22, 11, 2)
        assert second.margin == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
        assert (second.against, second.verdict, second.runs) == ("a", "unclear", 3)

    def test_small_constant_difference_is_clear_despite_a_large_spread(self):
        _, second = compare(results({"a": [10, 50, 90], "b": [11, 51, 91.1]}))
        assert second.spread > 30
        assert second.verdict == "better"

    def test_of_failures_less_is_better(self):
        _, second = compare(results({"a": [10, 50, 90], "b": [11, 51, 91.1]}, figure="failed"), ["failed"])
        assert (second.verdict, second.wins) == ("worse", 0)

    def test_runs_that_nobody_beat_are_wins_and_ties_count_for_all(self):
        first, second, third = compare(results({"a": [3, 2, 1], "b": [3, 1, 2], "c": [0, 0, 0]}))
        assert (first.wins, second.wins, third.wins) == (2, 2, 0)

    def test_equal_runs_are_equal(self):
        _, second = compare(results({"a": [1, 2], "b": [1, 2]}))
        assert (second.difference, second.margin, second.verdict) == (0, 0, "equal")

    def test_seeds_without_effect_give_exact_differences(self):
        first, second, third = compare(results({"a": [1, 1, 1], "b": [2, 2, 2], "c": [1, 1, 1]}))
        assert (first.runs, first.seeds_matter, first.wins) == (1, False, 0)
        assert (second.difference, second.margin, second.verdict, second.wins) == (1, None, "better", 1)
        assert (third.difference, third.margin, third.verdict) == (0, None, "equal")

    def test_a_policy_that_draws_keeps_its_interval(self):
        _, second, third = compare(results({"a": [1, 1, 1], "random": [2, 2, 3], "c": [2, 2, 2]}))
        assert (second.seeds_matter, second.runs, second.margin is None) == (True, 3, False)
        assert (third.seeds_matter, third.runs, third.margin, third.verdict) == (False, 3, None, "better")

    def test_one_run_says_nothing_about_its_difference(self):
        _, second = compare(results({"a": [1], "b": [2]}))
        assert (second.difference, second.margin, second.verdict) == (1, None, None)

    def test_the_best_can_be_the_measure(self):
        rows = compare(results({"a": [1, 2], "b": [5, 6], "c": [3, 4]}), against="best")
        assert [row.against for row in rows] == ["b"] * 3
        assert [row.difference for row in rows] == [-4, None, -2]

    def test_several_workloads_also_stand_together(self):
        both = [*results({"a": [1, 2], "b": [2, 3]}, "one"), *results({"a": [5, 6], "b": [4, 5]}, "two")]
        rows = {(row.workload, row.policy): row for row in compare(both)}
        assert rows["all", "b"].runs == 4
        assert rows["all", "b"].difference == 0
        assert (rows["one", "b"].wins, rows["two", "b"].wins, rows["all", "b"].wins) == (2, 0, 2)

    def test_the_share_of_the_bound_is_a_mean_of_shares(self):
        bounds = {("default", 1.3, 0): 50.0, ("default", 1.3, 1): 100.0}
        (row,) = compare(results({"a": [25, 75]}), bounds=bounds)
        assert row.of_bound == 62.5

    def test_without_all_bounds_there_is_no_share(self):
        (row,) = compare(results({"a": [25, 75]}), bounds={("default", 1.3, 0): 50.0})
        assert row.of_bound is None

    def test_a_figure_that_is_not_there_is_refused_with_those_that_are(self):
        with pytest.raises(UnknownNameError) as caught:
            compare(results({"a": [1]}), ["speed"])
        assert "gpu_percent" in caught.value.hint

    def test_runs_of_different_seeds_cannot_be_compared(self):
        lonely = CellResult(key="", hostler="", cell=SweepCell(policy="b", seed=9), figures={"gpu_percent": 1})
        with pytest.raises(InputError, match="nothing to compare"):
            compare([*results({"a": [1]}), lonely])


class TestCommand:
    """``hostler sim compare`` as it is typed."""

    def compare(self, data_dir, *words, seeds=SEEDS, policies="fgd,first_fit,random"):
        return hostler("sim", "compare", "--policies", policies, "--seeds", seeds, "--data-dir", data_dir, *words)

    def test_it_prints_a_row_per_policy(self, data_dir):
        done = self.compare(data_dir, "--jobs", "1")
        assert (done.code, done.err) == (0, "")
        assert done.lines[0].split()[:5] == ["WORKLOAD", "FIGURE", "POLICY", "MEAN", "SPREAD"]
        assert [line.split()[2] for line in done.lines[1:4]] == ["fgd", "first_fit", "random"]
        assert "Differences are to fgd" in done.out

    def test_several_processes_print_the_same(self, data_dir):
        one, two = (self.compare(data_dir, "--jobs", jobs, "-o", "json") for jobs in ("1", "2"))
        assert one.out == two.out

    def test_bounds_are_above_what_policies_reach(self, data_dir):
        rows = self.compare(data_dir, "--jobs", "1", "--bound", "-o", "json").json
        assert all(0 < row["of_bound"] <= 100 for row in rows)

    def test_csv_and_parquet_hold_the_same_rows(self, data_dir, tmp_path):
        polars = pytest.importorskip("polars")
        text = self.compare(data_dir, "--jobs", "1", "-o", "csv").out
        file = tmp_path / "rows.parquet"
        assert self.compare(data_dir, "--jobs", "1", "-O", file).code == 0
        rows = list(csv.DictReader(io.StringIO(text)))
        table = polars.read_parquet(file).to_dicts()
        assert [row["policy"] for row in rows] == [row["policy"] for row in table]
        assert [float(row["mean"]) for row in rows] == [row["mean"] for row in table]

    def test_several_figures_and_workloads(self, data_dir):
        words = ("--workload", "default,cpu050", "--figure", "gpu_percent,failed", "--jobs", "1", "-o", "json")
        rows = self.compare(data_dir, *words, policies="fgd,random").json
        assert len(rows) == 2 * 2 * 3
        assert {row["workload"] for row in rows} == {"default", "cpu050", "all"}

    def test_a_scenario_takes_the_place_of_openb(self, tmp_path):
        file = tmp_path / "busy.yaml"
        file.write_text(
            "apiVersion: hostler/v1\nkind: Scenario\n"
            "policies: [{name: mine, extends: pack}]\n"
            "hosts: [{name: host, count: 2, capacity: {cpu: 4}}]\n"
            "arrivals: [{guest: {name: web, requests: {cpu: 1}}, count: 50}]\n"
        )
        words = ("--policies", "spread,mine", "--runs", "2", "--jobs", "1", "-o", "json")
        done = hostler("sim", "compare", file, *words)
        assert done.code == 0, done.err
        assert {(row["workload"], row["policy"]) for row in done.json} == {("busy", "spread"), ("busy", "mine")}

    def test_trace_is_compared_directly_as_run_plays_it(self):
        policies = ("spread", "pack")
        words = ("--figure", "wait_mean_s,cpu_mean", "--jobs", "1", "--runs", "2", "-o", "json")
        done = hostler("sim", "compare", JOBS, "--policies", ",".join(policies), "--hosts-file", JOBS_HOSTS, *words)
        assert done.code == 0, done.err
        rows = {(row["policy"], row["figure"]): row["mean"] for row in done.json}
        assert {row["workload"] for row in done.json} == {"jobs"}
        for policy in policies:
            alone = hostler("sim", "run", JOBS, "--hosts-file", JOBS_HOSTS, "--policy", policy, "-o", "json").json
            assert rows[policy, "cpu_mean"] == pytest.approx(alone["cpu_mean"])
            assert rows[policy, "wait_mean_s"] == pytest.approx(alone["waits"]["mean"])

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            ((JOBS, "--workload", "cpu050"), "--workload is for openb"),
            ((JOBS, "--tune", "1"), "--tune is for openb"),
            ((JOBS, "--bound"), "--bound is for openb"),
            (("openb", "--hosts", "3"), "--hosts is for traces"),
            (("nowhere.csv",), "there is no such file"),
        ],
    )
    def test_options_that_do_not_go_with_a_trace_are_refused(self, words, problem):
        done = hostler("sim", "compare", *words, "--policies", "spread,pack", "--runs", "1")
        assert done.code == 2
        assert problem in done.err

    def test_dask_without_a_scheduler_is_unavailable(self, data_dir):
        done = self.compare(data_dir, "--dask", "tcp://127.0.0.1:9")
        assert done.code == 3
        assert done.error == "no Dask scheduler answers at tcp://127.0.0.1:9"

    def test_a_scenario_without_chance_has_no_interval(self, tmp_path):
        file = tmp_path / "even.yaml"
        file.write_text(
            "apiVersion: hostler/v1\nkind: Scenario\n"
            "hosts: [{name: host, count: 2, capacity: {cpu: 4}}]\n"
            "arrivals:\n"
            "- {guest: {name: small, requests: {cpu: 1}}, count: 4, pattern: {kind: at_once},"
            " duration: {kind: fixed}}\n"
            "- {guest: {name: large, requests: {cpu: 4}}, count: 1, start: 1m, pattern: {kind: at_once},"
            " duration: {kind: fixed}}\n"
        )
        words = ("--policies", "pack,spread", "--runs", "3", "--jobs", "1", "--figure", "wait_mean_s")
        done = hostler("sim", "compare", file, *words)
        assert done.code == 0, done.err
        assert "±" not in done.out
        assert [line.split()[4:] for line in done.lines[1:3]] == [
            ["-", "-", "-", "1/1"],
            ["-", done.lines[2].split()[5], "worse", "0/1"],
        ]
        assert "Seeds make no difference: each policy gives the same result with all 3 seeds." in done.out

    def test_runs_counts_seeds_from_42(self, data_dir):
        words = ("sim", "compare", "--policies", "first_fit", "--workload", "cpu050", "--jobs", "1", "-o", "json")
        counted, listed = (hostler(*words, *given) for given in (("--runs", "2"), ("--seeds", "42,43")))
        assert counted.code == 0, counted.err
        assert counted.json[0]["runs"] == 2
        assert counted.out == listed.out

    @pytest.mark.parametrize("command", [("compare",), ("sweep", "out")])
    def test_seeds_rejects_a_lone_number(self, command):
        done = hostler("sim", *command, "--policies", "fgd", "--seeds", "42")
        assert done.code == 2
        assert done.error == "--seeds 42 may mean one seed or 42 of them"
        assert done.hint == "--runs 42 runs 42 seeds; --seeds 42-42 runs seed 42 alone"

    def test_runs_and_seeds_exclude_each_other(self):
        done = hostler("sim", "compare", "--policies", "fgd", "--runs", "3", "--seeds", "42-44")
        assert (done.code, done.error) == (2, "give --runs or --seeds, not both")

    def test_a_policy_from_a_file_takes_part(self, data_dir, tmp_path):
        file = tmp_path / "mine.py"
        file.write_text(
            "import numpy as np\n\n\n"
            "class Last:\n"
            "    name = 'last'\n"
            "    normalizer = 'none'\n\n"
            "    def __init__(self, view, args):\n"
            "        pass\n\n"
            "    def evaluate(self, spec, rows):\n"
            "        return np.asarray(rows, dtype=np.int64)\n"
        )
        done = self.compare(data_dir, "--plugin", file, "--jobs", "2", "-o", "json", policies="fgd,last")
        assert done.code == 0, done.err
        assert [row["policy"] for row in done.json] == ["fgd", "last"]

    def test_a_plugin_that_fails_is_reported_with_its_run(self, data_dir, tmp_path):
        file = tmp_path / "broken.py"
        file.write_text(
            "class Broken:\n"
            "    name = 'broken'\n"
            "    normalizer = 'none'\n\n"
            "    def __init__(self, view, args):\n"
            "        pass\n\n"
            "    def evaluate(self, spec, rows):\n"
            "        raise RuntimeError('no idea')\n"
        )
        done = self.compare(data_dir, "--plugin", file, "--jobs", "1", policies="broken")
        assert done.code == 2
        assert done.error.startswith("default, broken, seed 1, tune 1.3: ")

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("--policies", ""), "name the policies"),
            (("--policies", "no_such"), "no policy 'no_such'"),
            (("--workload", "huge"), "no workload 'huge'"),
            (("--seeds", "many"), "'many' are no seeds"),
            (("--seeds", "5-1"), "'5-1' are no seeds"),
            (("--against", "nobody"), "'nobody' is not among"),
            (("--forced", "90"), "--forced needs --bound"),
            (("--figure", "speed", "--jobs", "1", "--seeds", "1-1"), "no figure 'speed'"),
            (("-o", "parquet"), "Parquet is no text"),
            (("-O", "rows.txt"), "is no format"),
            (("nowhere.yaml",), "nowhere.yaml: cannot be read"),
        ],
    )
    def test_bad_words_are_refused(self, data_dir, words, problem):
        done = self.compare(data_dir, *words)
        assert done.code == 2
        assert problem.lower() in done.error.lower()


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("highspy", ("sim", "bound", "--at", "100"), "sim"),
        ("polars", ("sim", "compare", "--policies", "fgd", "--seeds", "1-1", "--jobs", "1", "-O", "x.parquet"), "sim"),
        ("distributed", ("sim", "sweep", "out", "--policies", "fgd", "--dask", "tcp://127.0.0.1:9"), "dask"),
    ],
)
def test_a_missing_package_is_reported_with_what_to_install(monkeypatch, tmp_path, data_dir, package, words, extra):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    done = hostler(*words, *(("--data-dir", data_dir) if "compare" in words else ()))
    assert done.code == 3
    assert f"need the package {package}" in done.error
    assert done.hint == f"pip install 'hostler[{extra}]'"
    assert not list(tmp_path.glob("*.parquet"))
