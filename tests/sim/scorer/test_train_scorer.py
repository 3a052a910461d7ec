"""Training: it learns what it is shown, and the same seed gives the same network."""

from __future__ import annotations

import numpy as np

from hostler.sim.scorer.features import FEATURES
from hostler.sim.scorer.fragments import EncodedMix
from tests.sim.scorer.services import small_fleet
from tools.train_scorer import Data, train


def trained(seed: int):
    random = np.random.default_rng(7)
    features = random.uniform(0, 1, (2000, len(FEATURES)))
    data = Data(features, 20 + 60 * features[:, 3] * features[:, 4])
    return data, train(data, EncodedMix(small_fleet().mix), np.random.default_rng(seed), epochs=40)


def test_a_network_learns_what_it_is_shown():
    data, network = trained(1)
    error = np.abs(network.outputs(data.features) - data.scores).mean()
    assert error < np.abs(data.scores - data.scores.mean()).mean() / 2


def test_the_same_seed_gives_the_same_network():
    (_, first), (_, second), (_, other) = trained(1), trained(1), trained(2)
    assert first.layers[0].weights.tolist() == second.layers[0].weights.tolist()
    assert first.layers[0].weights.tolist() != other.layers[0].weights.tolist()
