"""Upper bounds: equal to hand-computed and published ones, and never below what a policy reached."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.engine import BUILT_IN
from hostler.errors import InputError
from hostler.model import Device, Host
from hostler.sim.bounds import CELLS, best_patterns, cells_of, count_arrivals_until, gpu_bound, single_patterns
from hostler.sim.fill_experiment import run_fill_experiment
from hostler.sim.openb import openb_experiment
from tests.cli.cli_in_process import hostler
from tests.sim.small_experiments import experiment_of, host, pod, random_experiment

# Workload, point, forced before, bound in percent; seed 42. From this project's study, computed there with scipy.
PUBLISHED = [
    ("default", 90, None, 89.98),
    ("default", 100, None, 96.91),
    ("default", 130, None, 99.88),
    ("default", 130, 94, 96.56),
]
MORE_PUBLISHED = [
    ("cpu200", 100, None, 96.90), ("cpu200", 130, None, 99.90), ("cpu200", 130, 94, 96.51),
    ("cpu250", 100, None, 96.91), ("cpu250", 130, None, 99.90), ("cpu250", 130, 92, 96.62),
    ("gpushare40", 100, None, 95.63), ("gpushare40", 130, None, 99.23), ("gpushare40", 130, 92, 95.25),
    ("gpushare60", 100, None, 93.41), ("gpushare60", 130, None, 97.12), ("gpushare60", 130, 90, 92.91),
    ("gpushare80", 90, None, 89.99), ("gpushare80", 130, None, 94.51), ("gpushare80", 130, 85, 91.42),
    ("gpushare100", 90, None, 88.33), ("gpushare100", 130, None, 91.58), ("gpushare100", 130, 85, 89.10),
    ("gpuspec10", 90, None, 89.73), ("gpuspec10", 100, None, 96.86), ("gpuspec10", 130, None, 99.87),
    ("gpuspec20", 90, None, 89.98), ("gpuspec20", 130, None, 99.88), ("gpuspec20", 130, 94, 96.56),
    ("gpuspec25", 90, None, 89.86), ("gpuspec25", 100, None, 96.89), ("gpuspec25", 130, None, 99.88),
    ("gpuspec33", 90, None, 87.91), ("gpuspec33", 100, None, 96.37), ("gpuspec33", 130, None, 99.79),
    ("multigpu20", 100, None, 97.35), ("multigpu20", 130, None, 100.0), ("multigpu20", 130, 94, 97.05),
    ("multigpu50", 100, None, 98.32), ("multigpu50", 130, None, 100.0), ("multigpu50", 130, 94, 98.12),
]  # fmt: skip
GPU_POLICIES = ("fgd", "gpu_packing", "gpu_best_fit", "dot_product", "random", "first_fit")


@pytest.mark.parametrize(("workload", "at", "forced", "percent"), PUBLISHED)
def test_bounds_of_the_default_workload_are_those_of_the_study(workload, at, forced, percent):
    found = gpu_bound(openb_experiment(workload, 42), at, forced)
    assert found.bound_percent == pytest.approx(percent, abs=0.0051)


@pytest.mark.long
@pytest.mark.parametrize(("workload", "at", "forced", "percent"), MORE_PUBLISHED)
def test_bounds_of_all_workloads_are_those_of_the_study(workload, at, forced, percent):
    found = gpu_bound(openb_experiment(workload, 42), at, forced)
    assert found.bound_percent == pytest.approx(percent, abs=0.0051)


def test_where_models_are_too_scarce_nobody_can_place_everybody():
    assert gpu_bound(openb_experiment("gpuspec33", 42), 130, 94).bound_percent is None


def percent(experiment, **options):
    return gpu_bound(experiment, **options).bound_percent


def test_two_large_shares_do_not_fit_on_one_gpu():
    assert percent(experiment_of([host("a", 2)], [pod(600)] * 4)) == pytest.approx(60)


def test_shares_that_complement_each_other_fill_the_gpus():
    assert percent(experiment_of([host("a", 2)], [pod(600), pod(600), pod(400), pod(400)])) == pytest.approx(100)


def test_a_host_takes_one_guest_that_needs_more_than_half_of_its_gpus():
    # Gpus alone would hold 16 / 5 = 3.2 guests of five.
    assert percent(experiment_of([host("a", 8), host("b", 8)], [pod(1000, 5)] * 4)) == pytest.approx(100 * 10 / 16)


def test_cpu_and_memory_bound_too():
    assert percent(experiment_of([host("a", 4, cpu=10)], [pod(1000, cpu=5000)] * 4)) == pytest.approx(50)
    assert percent(experiment_of([host("a", 4, memory=10)], [pod(1000, memory=10)] * 4)) == pytest.approx(25)


def test_a_model_that_nobody_has_counts_for_nothing():
    assert percent(experiment_of([host("a", 4)], [pod(1000), pod(1000, models=["H100"])])) == pytest.approx(25)


def test_those_who_must_be_placed_take_room_from_better_ones():
    experiment = experiment_of([host("a", 1)], [pod(600), pod(1000)])
    assert percent(experiment) == pytest.approx(100)
    assert percent(experiment, forced_percent=60) == pytest.approx(60)


def test_guests_without_gpu_count_where_they_must_be_placed():
    experiment = experiment_of([host("a", 1, cpu=4)], [pod(cpu=4000), pod(1000)])
    assert percent(experiment) == pytest.approx(100)
    assert percent(experiment, forced_percent=50) == pytest.approx(0, abs=1e-6)


def test_a_bound_that_nobody_can_meet_is_none():
    assert percent(experiment_of([host("a", 1)], [pod(600), pod(600)]), forced_percent=120) is None


def test_a_point_counts_those_who_arrive_before_it_is_passed():
    experiment = experiment_of([host("a", 2)], [pod(500), pod(500), pod(), pod(1000)])
    assert [count_arrivals_until(experiment, at) for at in (0, 25, 49, 50, 99, 100)] == [0, 1, 1, 3, 3, 4]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_policy_reaches_more_than_the_bound(seed):
    experiment = random_experiment(seed)
    bound = percent(experiment)
    for name in GPU_POLICIES:
        result = run_fill_experiment(experiment, BUILT_IN[name], seed)
        assert 100 * result.gpu_milli_allocated / result.gpu_milli_total <= bound + 1e-6, name


@pytest.mark.long
@pytest.mark.parametrize("workload", ["default", "cpu250", "gpushare100", "gpuspec33", "multigpu50"])
def test_no_policy_reaches_more_than_the_bound_on_openb(workload):
    for seed in (42, 47):
        experiment = openb_experiment(workload, seed)
        bound = percent(experiment)
        for name in GPU_POLICIES:
            result = run_fill_experiment(experiment, BUILT_IN[name], seed)
            assert 100 * result.gpu_milli_allocated / result.gpu_milli_total <= bound, name


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_forcing_never_raises_a_bound_and_more_arrivals_never_lower_it(seed):
    experiment = random_experiment(seed)
    early, late = percent(experiment, at_percent=80), percent(experiment, at_percent=150)
    forced = percent(experiment, at_percent=150, forced_percent=30)
    assert early <= late + 1e-4
    assert forced is None or forced <= late + 1e-4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 99), min_size=1, max_size=5, unique=True), st.data())
def test_the_best_pattern_fits_and_is_worth_what_is_said(sizes, data):
    values = np.array([[data.draw(st.floats(0, 10)) for _ in sizes]])
    patterns, worth = best_patterns(sizes, values)
    assert int(patterns[0] @ np.array(sizes)) <= CELLS
    assert float(patterns[0] @ values[0]) == pytest.approx(float(worth[0]))
    assert all(float(single @ values[0]) <= worth[0] + 1e-9 for single in single_patterns(sizes))


def test_a_share_between_two_cells_is_rounded_down():
    assert [cells_of(milli) for milli in (10, 19, 810, 999)] == [1, 1, 81, 99]


def test_shares_smaller_than_a_cell_are_refused():
    with pytest.raises(InputError, match="5 thousandths"):
        gpu_bound(experiment_of([host("a", 1)], [pod(5)]))


def test_hosts_whose_gpus_differ_are_refused():
    mixed = Host(name="a", devices=(Device("gpu", "T4"), Device("gpu", "G2")))
    with pytest.raises(InputError, match="gpus that differ"):
        gpu_bound(experiment_of([mixed], [pod(1000)]))


def test_hosts_without_gpus_have_no_bound():
    with pytest.raises(InputError, match="no gpus"):
        gpu_bound(experiment_of([host("a", 0)], [pod(1000)]))


def test_the_command_prints_free_and_forced_bounds():
    done = hostler("sim", "bound", "--at", "90,130", "--forced", "94")
    assert (done.code, done.err) == (0, "")
    assert done.row("90%") == ["90%", "7,493", "89.98", "-"]
    assert done.row("130%") == ["130%", "10,866", "99.88", "96.56"]


def test_the_command_writes_json():
    (found,) = hostler("sim", "bound", "--at", "100", "-o", "json").json
    assert round(found["bound_percent"], 2) == 96.91
    assert (found["workload"], found["seed"], found["forced_percent"]) == ("default", 42, None)


@pytest.mark.parametrize("points", ["", "ninety", "90,,100", "-5", "nan"])
def test_the_command_refuses_points_that_are_none(points):
    done = hostler("sim", "bound", "--at", points)
    assert done.code == 2
    assert "--at" in done.error
