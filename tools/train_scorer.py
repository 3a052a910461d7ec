"""Train the network that comes with the package: ``python -m tools.train_scorer [--out FILE]``.

It imitates ``fgd``. Runs of fgd on openb, with seeds of our own (100 and up, none of the published ones), are stopped
every few guests; for the next guest, hosts that fit are sampled, and the network learns the score that fgd would give
them: 100 x sigmoid(relief / 1000), where relief is by how much the guest lowers the expected fragment. All random
numbers come from ``--seed``, so the same call writes the same file on the same machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hostler.config import prepare_kernel_cache
from hostler.model import GuestsArrived, GuestSpec, HostsJoined
from hostler.sim.scorer.features import FEATURES, STEPS, CandidateHosts, GuestNeeds, features_of, guest_needs
from hostler.sim.scorer.fragments import Bools, EncodedMix, Floats
from hostler.sim.scorer.network import Layer, ScorerNetwork, save_network

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "src" / "hostler" / "sim" / "data" / "scorer" / "fgd_like.safetensors"
# Workload and seed; each is measured by its own typical mix, the network is shipped with that of the first.
RUNS = (
    *(("default", seed) for seed in range(100, 105)),
    ("cpu250", 105), ("gpushare60", 106), ("gpuspec33", 107), ("multigpu30", 108),
)  # fmt: skip
EVERY = 20  # guests between two samples
SAMPLED = 32  # hosts of the best, and as many of all
HIDDEN = (32, 16)
EPOCHS = 60
BATCH = 512
RATE = 3e-3


class Data(NamedTuple):
    """Features and the scores to learn."""

    features: Floats
    scores: Floats


def main() -> None:
    """Gather, train, write, and say how near the network comes."""
    parser = argparse.ArgumentParser(description="Train the scorer that comes with the package.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    prepare_kernel_cache()
    random = np.random.default_rng(options.seed)
    parts, mixes = [], []
    for workload, seed in RUNS:
        part, mix = gather(workload, seed, random)
        parts.append(part)
        mixes.append(mix)
        print(f"{workload}, seed {seed}: {len(part.scores):,} samples")
    data = Data(np.concatenate([p.features for p in parts]), np.concatenate([p.scores for p in parts]))
    network = train(data, mixes[0], random, options.epochs)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_network(network, options.out)
    print(f"{options.out.name}: {options.out.stat().st_size:,} bytes")


def gather(workload: str, seed: int, random: np.random.Generator) -> tuple[Data, EncodedMix]:
    """Return samples from one run of fgd."""
    from hostler.engine import Engine, find_policy
    from hostler.queries import with_mixes
    from hostler.sim.openb import openb_experiment
    from hostler.sim.scorer.plugin import candidate_hosts

    experiment = openb_experiment(workload, seed)
    mix = EncodedMix(experiment.mix)
    engine = Engine(with_mixes([find_policy("fgd")], experiment.specs), 0, seed)
    engine.apply_many(HostsJoined(hosts=experiment.hosts))
    engine.apply_many(arrivals(experiment.specs, experiment.order.tolist()))
    view = engine.view.cluster
    rows = np.arange(len(experiment.hosts), dtype=np.int64)
    tables, scores = [], []
    for at in range(0, len(experiment.order) - EVERY, EVERY):
        engine.step(1, EVERY)
        wish = guest_needs(experiment.specs[int(experiment.order[at + EVERY])])
        hosts = candidate_hosts(view, rows, mix)
        chosen = np.flatnonzero(find_fitting_hosts(wish, hosts))
        if len(chosen) < 2:
            continue
        table = features_of(wish, CandidateHosts(*(column[chosen] for column in hosts)), mix)
        label = 100.0 / (1.0 + np.exp(-table[:, FEATURES.index("relief")]))
        best = np.argsort(-label, kind="stable")[:SAMPLED]
        picked = np.concatenate([best, random.integers(0, len(chosen), SAMPLED)])
        tables.append(table[picked])
        scores.append(label[picked])
    return Data(np.concatenate(tables), np.concatenate(scores)), mix


def arrivals(specs: tuple[GuestSpec, ...], order: list[int]) -> GuestsArrived:
    """Return all guests of an experiment as one fact."""
    distinct = {spec: number for number, spec in enumerate(dict.fromkeys(specs))}
    names = tuple(f"pod-{at}" for at in range(len(order)))
    return GuestsArrived(specs=tuple(distinct), spec_of=tuple(distinct[specs[pod]] for pod in order), names=names)


def find_fitting_hosts(wish: GuestNeeds, hosts: CandidateHosts) -> Bools:
    """Say which hosts have room."""
    fits: Bools = (
        (hosts.cpu_free >= wish.cpu)
        & (hosts.memory_free >= wish.memory)
        & ((hosts.left >= max(wish.milli, 1)).sum(axis=1) >= wish.gpus)
    )
    return fits


def train(data: Data, mix: EncodedMix, random: np.random.Generator, epochs: int) -> ScorerNetwork:
    """Fit a network by Adam on the squared error; a tenth of the data only judges it."""
    mean = data.features.mean(axis=0)
    deviation = data.features.std(axis=0)
    scale = np.where(deviation > 1 / STEPS, 1 / np.maximum(deviation, 1 / STEPS), 0.0)
    inputs = (data.features - mean) * scale
    order = random.permutation(len(inputs))
    held, used = order[: len(order) // 10], order[len(order) // 10 :]
    layers = first_layers(len(FEATURES), float(data.scores.mean()), random)
    state = [[np.zeros_like(part) for _ in range(2)] for layer in layers for part in layer]
    step = 0
    for epoch in range(epochs):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        for batch in batches(random.permutation(used)):
            step += 1
            gradients = backward(layers, inputs[batch], data.scores[batch])
            parts = [part for layer in layers for part in layer]
            for part, gradient, (first, second) in zip(parts, gradients, state, strict=True):
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                part -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    trained = "fgd on openb: " + ", ".join(f"{workload} {seed}" for workload, seed in RUNS) + "; tools/train_scorer.py"
    network = ScorerNetwork("fgd_like", layers, FEATURES, mean.tolist(), scale.tolist(), mix.mix, trained)
    out, wanted = network.outputs(data.features[held]), data.scores[held]
    equal = np.mean(np.floor(np.clip(out, 0, 100)) == np.floor(wanted))
    print(f"held out: mean error {np.abs(out - wanted).mean():.3f} of 100, same integer {100 * equal:.1f}%")
    return network


def first_layers(width: int, middle: float, random: np.random.Generator) -> list[Layer]:
    """Return random weights; the last bias is the mean score, so that training begins near it."""
    layers = []
    for size in (*HIDDEN, 1):
        layers.append(Layer(random.normal(0, np.sqrt(2 / width), (width, size)), np.zeros(size)))
        width = size
    layers[-1].biases[:] = middle
    return layers


def batches(order: np.ndarray) -> Iterator[np.ndarray]:
    """Cut an order into batches."""
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]


def backward(layers: list[Layer], inputs: Floats, wanted: Floats) -> list[Floats]:
    """Return the gradients of half the mean squared error, weights and biases in turn."""
    values = [inputs]
    for layer in layers[:-1]:
        values.append(np.maximum(values[-1] @ layer.weights + layer.biases, 0.0))
    out = values[-1] @ layers[-1].weights + layers[-1].biases
    slope = (out - wanted[:, None]) / len(inputs)
    gradients: list[Floats] = []
    for layer, value in zip(reversed(layers), reversed(values), strict=True):
        gradients[:0] = [value.T @ slope, slope.sum(axis=0)]
        slope = (slope @ layer.weights.T) * (value > 0)
    return gradients


if __name__ == "__main__":
    main()
