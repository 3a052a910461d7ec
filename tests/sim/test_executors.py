"""Executors: results are the same bytes with each of them; what dies is reported, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from hostler.errors import InputError, PluginError, UnavailableError
from hostler.sim.sweeps.cells import CellResult, SweepCell, cell_key, hash_plugin_files, run_cell, run_cell_or_fail
from hostler.sim.sweeps.dask_cluster import run_on_dask
from hostler.sim.sweeps.executors import run_here, run_in_processes
from tests.cli.cli_in_process import hostler
from tests.sim.small_openb import small_cells, write_small_openb
from tests.wait import wait_until

pytestmark = pytest.mark.early

DEADLY = "import os\n\nos._exit(9)\n"
SCENARIO = {
    "apiVersion": "hostler/v1",
    "kind": "Scenario",
    "hosts": [{"name": "host", "count": 2, "capacity": {"cpu": 4}}],
    "arrivals": [{"guest": {"name": "web", "requests": {"cpu": 1}}, "count": 20}],
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return write_small_openb(tmp_path_factory.mktemp("openb"))


def contents(finished) -> dict[str, bytes]:
    return {done.result.key: done.content for done in finished}


def mixed_cells(data_dir: Path) -> list[SweepCell]:
    scenario = SweepCell(
        kind="scenario", workload="two", scenario=msgspec.json.encode(SCENARIO).decode(), policy="pack"
    )
    return [
        *small_cells(data_dir),
        SweepCell(kind="bound", seed=1, data_dir=str(data_dir)),
        scenario,
        SweepCell(policy="no_such", seed=1, data_dir=str(data_dir)),
    ]


def test_one_process_and_several_give_the_same_bytes(data_dir):
    cells = mixed_cells(data_dir)
    here = contents(run_here(cells))
    assert len(here) == len(cells)
    assert contents(run_in_processes(cells, 2)) == here


def test_a_result_comes_back_from_its_bytes(data_dir):
    done = run_cell_or_fail(small_cells(data_dir)[0])
    assert msgspec.json.decode(done.content, type=CellResult) == done.result
    assert done.wall_s > 0
    assert b"wall" not in done.content


def test_a_run_has_figures_curves_and_failures_by_kind(data_dir):
    result = run_cell(small_cells(data_dir)[0])
    assert 0 < result.figures["gpu_percent"] <= 100
    assert result.figures["gpu_percent"] == pytest.approx(result.curves["alloc"][130], abs=2)
    assert result.figures["failed"] == sum(result.failed_by_kind.values())


def test_a_scenario_has_the_figures_of_its_outcome(data_dir):
    scenario = mixed_cells(data_dir)[-2]
    assert run_cell(scenario).figures["guests"] == 20


def test_a_cell_that_fails_is_a_result_with_its_error(data_dir):
    result = run_cell_or_fail(mixed_cells(data_dir)[-1]).result
    assert result.error == "there is no policy 'no_such'"
    assert result.hint
    assert not result.figures


def test_equal_cells_have_one_key_and_others_another():
    cell = SweepCell(policy="fgd", seed=1)
    assert cell_key(cell) == cell_key(SweepCell(policy="fgd", seed=1))
    others = [
        SweepCell(policy="fgd", seed=2),
        SweepCell(policy="pack", seed=1),
        SweepCell(policy="fgd", seed=1, tune=1.0),
    ]
    assert len({cell_key(each) for each in (cell, *others)}) == 4


def test_edited_plugin_file_makes_a_new_cell_and_fails_the_old_one(data_dir, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from hostler.model import Policy\n\nMINE = Policy(name='mine')\n")
    cell = SweepCell(policy="mine", seed=1, data_dir=str(data_dir), plugins=hash_plugin_files([file]))
    assert run_cell(cell).figures
    file.write_text(file.read_text() + "\n")
    assert hash_plugin_files([file]) != cell.plugins
    with pytest.raises(PluginError, match="has changed"):
        run_cell(cell)


def test_a_cell_that_kills_its_process_fails_and_the_others_go_on(data_dir, tmp_path):
    file = tmp_path / "deadly.py"
    file.write_text(DEADLY)
    deadly = SweepCell(policy="fgd", seed=99, data_dir=str(data_dir), plugins=hash_plugin_files([file]))
    cells = small_cells(data_dir)
    found = {done.result.key: done.result for done in run_in_processes([cells[0], deadly, *cells[1:]], 2)}
    assert found[cell_key(deadly)].error == "the process that ran it died"
    assert [found[cell_key(cell)].error for cell in cells] == [""] * len(cells)


def test_a_closed_run_leaves_no_process(data_dir):
    from multiprocessing import active_children

    before = set(active_children())
    with closing(run_in_processes(small_cells(data_dir, 10), 2)) as finished:
        next(finished)
        assert set(active_children()) - before
    assert not set(active_children()) - before


def is_whole(file: Path) -> bool:
    """Say whether the scheduler has written its file to the end, which it does not do at once."""
    return file.is_file() and file.read_bytes().rstrip().endswith(b"}")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    started = [start(folder, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                     "--scheduler-file", str(file))]  # fmt: skip
    try:
        wait_until(lambda: is_whole(file))
        started += [
            start(folder, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard",
                  "--no-nanny", "--name", f"worker-{number}")
            for number in range(2)
        ]  # fmt: skip
        yield msgspec.json.decode(file.read_bytes())["address"]
    finally:
        for process in reversed(started):  # workers first: without a scheduler they would wait for it
            end(process)


class TestDask:
    """A real scheduler and two workers on loopback."""

    def test_dask_gives_the_same_bytes(self, data_dir, address):
        cells = mixed_cells(data_dir)
        assert contents(run_on_dask(cells, address)) == contents(run_here(cells))

    def test_compare_on_dask_prints_the_same(self, data_dir, address):
        words = ("sim", "compare", "--policies", "fgd,random", "--seeds", "1-2", "--data-dir", data_dir, "-o", "json")
        here, there = hostler(*words, "--jobs", "1"), hostler(*words, "--dask", address)
        assert there.code == 0, there.err
        assert there.out == here.out

    def test_a_closed_run_leaves_the_cluster_as_it_was(self, data_dir, address):
        with closing(run_on_dask(small_cells(data_dir, 5), address)) as finished:
            next(finished)
        assert len(contents(run_on_dask(small_cells(data_dir, 1), address))) == 2


def test_a_scheduler_that_does_not_answer_is_unavailable(data_dir):
    with pytest.raises(UnavailableError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        list(run_on_dask(small_cells(data_dir), "tcp://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["nowhere://x:1", "tcp://", "127.0.0.1", "host:port"])
def test_an_address_that_is_none_is_refused(data_dir, address):
    with pytest.raises(InputError, match="is no address of a Dask scheduler"):
        list(run_on_dask(small_cells(data_dir), address))


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a process of Dask."""
    dask = Path(sys.executable).parent / "dask"
    with (folder / f"{words[0]}-{len(list(folder.iterdir()))}.log").open("wb") as log:
        return subprocess.Popen(
            [dask, *words], cwd=folder, stdout=log, stderr=log, env={**os.environ, "PYTHONWARNINGS": ""}
        )


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
