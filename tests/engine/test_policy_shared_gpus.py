"""Hand-computed tables for gpu_packing, gpu_clustering, gpu_best_fit and dot_product."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.fleet import arrive, engine_with, guest, host, place
from tests.engine.gpus import gpu_engine, gpu_host
from tests.engine.scores import raw_scores, weighted_scores

PACKING = [
    pytest.param([1000, 1000], (1, 300), 31, id="a free host: 33 less its gpus"),
    pytest.param([1000] * 8, (8, 1000), 25, id="a free host of eight"),
    pytest.param([1000] * 20, (1, 1000), 20, id="a free host of twenty: its gpus"),
    pytest.param([1000, 400], (1, 300), 96, id="a share beside another: 100 - 40/10"),
    pytest.param([1000, 400, 300], (1, 300), 97, id="the fullest device that fits counts"),
    pytest.param([1000, 400], (1, 500), 49, id="a fresh device on a used host: 50 less one"),
    pytest.param([1000, 1000, 400], (2, 1000), 48, id="two fresh devices: 50 less two"),
    pytest.param([900, 900, 900], (2, 400), 82, id="two shares: 100 - (90+90)/10"),
    pytest.param([900] * 9, (8, 400), 50, id="never below 50 on used devices"),
    pytest.param([1000] * 18 + [0], (18, 1000), 33, id="never below 33 on a used host"),
    pytest.param([1000, 400], (2, 300), 49, id="one fresh device of two taken"),
]


@pytest.mark.parametrize(("left", "gpu", "expected"), PACKING)
def test_gpu_packing(left, gpu, expected):
    engine = gpu_engine("gpu_packing", gpu_host("a", left))
    assert raw_scores(engine, guest("g", gpu=gpu), "gpu_packing") == {"a": expected}


def test_gpu_packing_prefers_used_devices_then_used_hosts():
    fleet = [gpu_host("1", [1000] * 4), gpu_host("2", [1000]), gpu_host("3", [1000, 200]), gpu_host("4", [500, 1000])]
    engine = gpu_engine("gpu_packing", *fleet)
    assert place(engine, *(guest(f"g{i}", cpu=0, gpu=(1, 400)) for i in range(3))) == ["4", "3", "3"]
    assert place(engine, guest("whole", cpu=0, gpu=(1, 1000))) == ["4"]
    assert place(engine, guest("next", cpu=0, gpu=(1, 1000))) == ["2"]


CLUSTERING = [
    # b = 25 * (8000 - idle) / 8000 in whole numbers
    pytest.param([1000, 1000], [], (1, 300), 18 + 25, id="no gpu guest yet"),
    pytest.param([1000, 1000], [(1, 300)], (1, 500), 19 + 75, id="only guests of its kind"),
    pytest.param([1000, 1000, 1000], [(1, 300), (1, 1000)], (1, 500), 19 + 50, id="its kind among others"),
    pytest.param([1000, 1000], [(1, 1000)], (1, 500), 21, id="others only"),
    pytest.param([1000, 1000, 1000], [(1, 1000)], (2, 1000), 18, id="one gpu is another kind than two"),
    pytest.param([1000, 1000, 1000], [(2, 400)], (1, 400), 18, id="two shares are another kind than one"),
]


@pytest.mark.parametrize(("left", "tenants", "gpu", "expected"), CLUSTERING)
def test_gpu_clustering(left, tenants, gpu, expected):
    engine = gpu_engine("gpu_clustering", gpu_host("a", left))
    arrive(engine, *(guest(f"t{i}", gpu=each, host="a") for i, each in enumerate(tenants)))
    assert raw_scores(engine, guest("g", gpu=gpu), "gpu_clustering") == {"a": expected}


@pytest.mark.parametrize("name", ["gpu_clustering", "gpu_packing"])
def test_guests_without_gpus_do_not_matter_to_clustering_and_packing(name):
    engine = gpu_engine(name, gpu_host("a", [1000, 300]))
    assert raw_scores(engine, guest("g"), name) == {"a": 0}


VECTORS = [host("a", 128_000, gpus=8), host("b", 64_000, gpus=4), host("c", 64_000, gpus=8)]

HALF: dict[str, Any] = {"cpu": 64_000, "memory": 0, "gpu": (4, 1000)}


def test_gpu_best_fit_is_scaled_from_worst_to_best():
    # a: 100 * (1 - 0.5*0.5 - 0.5*0.5) = 50, b: nothing left over: 100, c: 100 * (1 - 0.5*0.5) = 75
    assert raw_scores(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF), "gpu_best_fit") == {
        "a": 50, "b": 100, "c": 75,
    }  # fmt: skip
    assert weighted_scores(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF), "gpu_best_fit") == {
        "a": 0, "b": 100_000, "c": 50_000,
    }  # fmt: skip
    assert place(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF)) == ["b"]


def test_gpu_best_fit_of_equal_hosts_is_zero_and_goes_by_rank():
    hosts = [host("a", gpus=1, rank=2), host("b", gpus=1, rank=1), host("c", gpus=1, rank=1)]
    engine = engine_with(hosts, "gpu_best_fit")
    assert place(engine, guest("g", gpu=(1, 100))) == ["b"]
    assert engine.decision("g").total == 0


def test_the_dot_product_prefers_the_smaller_product():
    # a: (1*0.5 + 1*0.5)/2 = 0.5, b: (0.25 + 0.25)/2, c: (0.25 + 0.5)/2 = 0.375, truncated
    assert raw_scores(engine_with(VECTORS, "dot_product"), guest("g", **HALF), "dot_product") == {
        "a": 50, "b": 75, "c": 62,
    }  # fmt: skip
    assert place(engine_with(VECTORS, "dot_product"), guest("g", **HALF)) == ["b"]
