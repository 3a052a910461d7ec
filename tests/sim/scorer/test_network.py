"""The network: its file, its checks, and what it sees."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from hostler.errors import InputError
from hostler.sim.datasets import find_data
from hostler.sim.scorer.features import FEATURES, CandidateHosts, GuestNeeds, features_of
from hostler.sim.scorer.fragments import EncodedMix
from hostler.sim.scorer.network import SHIPPED, Layer, ScorerNetwork, load_network, save_network, shipped_network
from hostler.sim.traces.openb import SEEDS
from tests.sim.scorer.services import small_fleet

MIX = small_fleet().mix


def tiny(features=("cpu_free", "relief"), weights=((1.0,), (2.0,)), bias=(50.0,), mix=MIX) -> ScorerNetwork:
    layers = [Layer(np.array(weights), np.array(bias))]
    return ScorerNetwork("tiny", layers, features, [0.0] * len(features), [1.0] * len(features), mix)


def hosts(left, cpu=64_000, free=32_000) -> CandidateHosts:
    n = len(left)
    return CandidateHosts(
        np.full(n, cpu), np.full(n, free), np.full(n, 2**38), np.full(n, 2**37), np.array(left), np.zeros(n, np.int64)
    )


def test_the_shipped_weights_are_small_and_tell_what_they_are():
    assert find_data(SHIPPED).stat().st_size < 200_000
    network = shipped_network()
    assert network.sizes == [len(FEATURES), 32, 16, 1]
    assert len(network.mix.mix) == 35
    seeds = [int(seed) for seed in re.findall(r"\w+ (\d+)", network.trained)]
    assert seeds, "it says what it was trained on"
    assert not set(seeds) & set(SEEDS), "and none of that is published, so it may be judged by those"


def test_a_saved_network_comes_back_and_equal_ones_are_equal_files(tmp_path):
    for name in ("a", "b"):
        save_network(shipped_network(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    again = load_network(tmp_path / "a")
    table = np.random.default_rng(1).uniform(-1, 1, (50, len(FEATURES)))
    assert again.outputs(table).tolist() == shipped_network().outputs(table).tolist()


def test_a_file_that_is_no_network_is_refused(tmp_path):
    path = tmp_path / "weights"
    for raw in (b"", b"nonsense" * 100):
        path.write_bytes(raw)
        with pytest.raises(InputError, match="cannot be read"):
            load_network(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(InputError, match="not a network"):
        load_network(path)
    told = {"kind": "other/v9", "name": "n", "sizes": [], "features": [], "mean": [], "scale": [], "mix": []}
    save_file({"a": np.zeros(3)}, path, metadata={"network": json.dumps(told)})
    with pytest.raises(InputError, match="other/v9"):
        load_network(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_network(tmp_path / "absent")


@pytest.mark.parametrize(
    "parts",
    [
        {"features": ("cpu_free", "colour")},
        {"weights": ((1.0,),)},
        {"weights": ((1.0, 1.0), (1.0, 1.0)), "bias": (1.0, 1.0)},
        {"weights": ((1000.0,), (1.0,))},
        {"weights": ((float("nan"),), (1.0,))},
    ],
)
def test_a_network_that_does_not_fit_together_is_refused(parts):
    with pytest.raises(InputError):
        tiny(**parts)


def test_a_network_may_look_at_few_features():
    scores = tiny(features=("gpus_idle",), weights=((8.0,),), bias=(10.0,)).scores(
        GuestNeeds(1000, 0, 1, 1000, is_constrained=False), hosts([[1000, 1000], [1000, 500]])
    )
    assert scores.tolist() == [12, 11]


def test_scores_stay_between_0_and_100():
    wish = GuestNeeds(1000, 0, 0, 0, is_constrained=False)
    for bias, score in ((200.0, 100), (-200.0, 0)):
        assert tiny(bias=(bias,)).scores(wish, hosts([[1000]])).tolist() == [score]


def test_features_say_how_gpus_stand():
    table = features_of(
        GuestNeeds(8000, 2**36, 1, 400, is_constrained=True), hosts([[1000, 500, 300, -1]]), EncodedMix(MIX)
    )
    seen = dict(zip(FEATURES, table[0].tolist(), strict=True))
    assert (seen["gpus"], seen["gpus_idle"], seen["gpus_shared"], seen["gpus_that_fit"]) == (3 / 8, 1 / 8, 2 / 8, 2 / 8)
    assert (seen["largest_left"], seen["smallest_fit"]) == (1.0, 0.5)
    assert (seen["cpu_free_share"], seen["cpu_used_share"], seen["cpu_share_after"]) == (0.5, 0.5, 0.375)
    assert (seen["is_share"], seen["is_constrained"], seen["has_no_gpu"]) == (1.0, 1.0, 0.0)
    assert seen["gpu_left"] == pytest.approx(0.225, abs=1e-3)


def test_hosts_without_gpus_and_odd_amounts_have_features_too():
    wish = GuestNeeds(0, 0, 2, 1000, is_constrained=False)
    for left, cpu in (([[], []], 64_000), ([[-1, -1]], 0), ([[1000, -1]], 2**60)):
        columns = hosts(np.array(left, dtype=np.int64), cpu=cpu, free=-cpu)
        table = features_of(wish, columns, EncodedMix(MIX))
        assert np.isfinite(table).all()
        assert np.abs(table).max() <= 8
