"""A small multi-layer perceptron in numpy, and its weights file.

Weights and the values between layers are rounded to 2^-12. All products and sums are then exact in 64-bit floats, so
that a score depends neither on the machine, nor on the order of a sum, nor on how many hosts are scored together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hostler.errors import InputError
from hostler.model import MixEntry
from hostler.sim.datasets import find_data
from hostler.sim.extras import missing_extra
from hostler.sim.scorer.features import FEATURES, STEPS, CandidateHosts, GuestNeeds, features_of
from hostler.sim.scorer.fragments import EncodedMix, Floats
from hostler.sim.workload import Ints

__all__ = ["SHIPPED", "Layer", "ScorerNetwork", "load_network", "save_network", "shipped_network"]

SHIPPED = "scorer/fgd_like.safetensors"
_KIND = "hostler.dev/mlp-scorer/v1"
_WIDEST = 256  # with weights and values below these bounds, a sum needs 52 bits of the 53 that a float has
_LARGEST_WEIGHT = 256.0
_LARGEST_VALUE = 4096.0
_MOST_BYTES = 16 << 20


class Layer(NamedTuple):
    """Weights (inputs, outputs) and biases (outputs)."""

    weights: Floats
    biases: Floats


class _Metadata(msgspec.Struct):
    kind: str
    name: str
    sizes: list[int]
    features: list[str]
    mean: list[float]
    scale: list[float]
    mix: list[MixEntry]
    trained: str = ""


class ScorerNetwork:
    """Scores hosts for a guest, 0 to 100; more is better."""

    def __init__(
        self,
        name: str,
        layers: Sequence[Layer],
        features: Sequence[str],
        mean: Sequence[float],
        scale: Sequence[float],
        mix: Sequence[MixEntry],
        trained: str = "",
    ) -> None:
        unknown = [feature for feature in features if feature not in FEATURES]
        if unknown:
            raise InputError(f"network {name!r} wants the feature {unknown[0]!r}", hint=f"known: {', '.join(FEATURES)}")
        self.name = name
        self.layers = tuple(Layer(_rounded(layer.weights), _rounded(layer.biases)) for layer in layers)
        self.features = tuple(features)
        self.mean = np.array(mean, dtype=np.float64)
        self.scale = np.array(scale, dtype=np.float64)
        self.mix = EncodedMix(mix)
        self.trained = trained
        self._columns = [FEATURES.index(feature) for feature in features]
        _check(self)

    @property
    def sizes(self) -> list[int]:
        """Return the sizes of all layers, inputs first."""
        return [len(self.features), *(len(layer.biases) for layer in self.layers)]

    def scores(self, wish: GuestNeeds, hosts: CandidateHosts) -> Ints:
        """Return one integer from 0 to 100 per host."""
        values = self.outputs(features_of(wish, hosts, self.mix)[:, self._columns])
        scores: Ints = np.floor(np.clip(values, 0.0, 100.0)).astype(np.int64)
        return scores

    def outputs(self, table: Floats) -> Floats:
        """Return what comes out for rows of features, before it is made a score."""
        values = _bounded((table - self.mean) * self.scale)
        for layer in self.layers[:-1]:
            values = np.maximum(_bounded(_times(values, layer.weights) + layer.biases), 0.0)
        last = self.layers[-1]
        out: Floats = (_times(values, last.weights) + last.biases)[:, 0]
        return out


def load_network(path: Path) -> ScorerNetwork:
    """Read a weights file (safetensors; what else must be known stands in its metadata)."""
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise missing_extra("networks", "safetensors", "sim") from error
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: a weights file of more than 16 MiB is not read")
        with safe_open(path, framework="numpy") as file:
            told = dict(file.metadata() or {})
            tensors = {name: np.asarray(file.get_tensor(name), dtype=np.float64) for name in file.keys()}  # noqa: SIM118
        if "network" not in told:
            raise InputError(f"{path}: not a network of ours", hint="the metadata has no entry network")
        data = msgspec.json.decode(told["network"], type=_Metadata)
        if data.kind != _KIND:
            raise InputError(f"{path}: a network of the kind {data.kind!r}", hint=f"known: {_KIND}")
        layers = [Layer(tensors[f"layer{at}.weight"], tensors[f"layer{at}.bias"]) for at in range(len(data.sizes) - 1)]
        network = ScorerNetwork(data.name, layers, data.features, data.mean, data.scale, data.mix, data.trained)
    except InputError:
        raise
    except Exception as error:  # the reader of the format raises errors of its own
        raise InputError(f"{path}: cannot be read as a network: {type(error).__name__}: {error}") from error
    if network.sizes != data.sizes:
        raise InputError(f"{path}: the layers have sizes {network.sizes}, and the metadata says {data.sizes}")
    return network


def save_network(network: ScorerNetwork, path: Path) -> None:
    """Write a weights file."""
    from safetensors.numpy import save_file

    tensors = {}
    for at, layer in enumerate(network.layers):
        tensors[f"layer{at}.weight"] = layer.weights.astype(np.float32)
        tensors[f"layer{at}.bias"] = layer.biases.astype(np.float32)
    told = _Metadata(
        _KIND,
        network.name, network.sizes, list(network.features), network.mean.tolist(), network.scale.tolist(),
        list(network.mix.mix), network.trained,
    )  # fmt: skip
    # One entry only: the format keeps several in no order, and equal networks should be equal files.
    save_file(tensors, path, metadata={"network": msgspec.json.encode(told).decode()})


@lru_cache(maxsize=4)
def shipped_network() -> ScorerNetwork:
    """Return the network that comes with the package."""
    return load_network(find_data(SHIPPED))


def _check(network: ScorerNetwork) -> None:
    """Reject shapes that do not fit together, and numbers that sums would not be exact for."""
    width = len(network.features)
    if not network.layers or not len(network.mean) == len(network.scale) == width:
        raise InputError(f"network {network.name!r} has no layers, or not one mean and scale per feature")
    for at, (weights, biases) in enumerate(network.layers):
        if weights.ndim != 2 or weights.shape != (width, len(biases)):
            raise InputError(f"network {network.name!r}: layer {at} has weights of shape {weights.shape}")
        width = len(biases)
        largest = max(np.abs(weights).max(initial=0.0), np.abs(biases).max(initial=0.0))
        if not largest <= _LARGEST_WEIGHT or max(weights.shape) > _WIDEST:
            raise InputError(f"network {network.name!r}: layer {at} has a weight beyond 256 or more than 256 neurons")
    if width != 1:
        raise InputError(f"network {network.name!r} ends with {width} numbers, not with one")


def _times(values: Floats, weights: Floats) -> Floats:
    """Multiply matrices, not by BLAS: its threads cost more than they bring for networks of this size."""
    product: Floats = np.einsum("ni,io->no", values, weights)
    return product


def _rounded(values: Floats) -> Floats:
    rounded: Floats = np.rint(values * STEPS) / STEPS
    return rounded


def _bounded(values: Floats) -> Floats:
    bounded: Floats = np.clip(_rounded(values), -_LARGEST_VALUE, _LARGEST_VALUE)
    return bounded
