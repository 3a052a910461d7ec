"""The network in process: the scorer plugin ``mlp``, and the policy in which it decides alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from hostler.engine import ClusterView
from hostler.errors import PluginError
from hostler.model import CPU, MEMORY, GuestSpec, Policy, ScorerUse
from hostler.sim.scorer.features import GPU, CandidateHosts, guest_needs
from hostler.sim.scorer.fragments import EncodedMix
from hostler.sim.scorer.network import ScorerNetwork, load_network, shipped_network
from hostler.sim.workload import Ints

__all__ = ["MlpScorer", "candidate_hosts", "mlp_policy", "network_at"]


class MlpScorer:
    """Scores hosts by a network; ``args``: {"model": a weights file}, or none for the one that comes with us."""

    name = "mlp"
    normalizer = "none"

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        model = args.get("model", "")
        if not isinstance(model, str):
            raise PluginError("scorer 'mlp' wants a path as its model", hint='args: {"model": "weights.safetensors"}')
        self._view = view
        self._network = network_at(Path(model) if model else None)

    def evaluate(self, spec: GuestSpec, rows: Ints) -> Ints:
        """Return scores from 0 to 100."""
        return self._network.scores(guest_needs(spec), candidate_hosts(self._view, rows, self._network.mix))


def candidate_hosts(view: ClusterView, rows: Ints, mix: EncodedMix) -> CandidateHosts:
    """Return hosts of the engine as columns."""
    columns, tables = view.cluster.columns(), view.cluster.tables
    is_gpu = columns.device_kind[rows] == tables.kinds.find(GPU)
    left = np.where(is_gpu, columns.device_left[rows], -1)
    known = np.array([mix.number(model) for model in tables.models.values] or [0], dtype=np.int64)
    if is_gpu.shape[1]:
        first = np.argmax(is_gpu, axis=1)
        model = known[columns.device_model[rows, first]]
        model = np.where(is_gpu.any(axis=1), model, mix.number(""))
    else:
        model = np.full(len(rows), mix.number(""), dtype=np.int64)
    cpu, memory = view.limit(CPU, rows), view.limit(MEMORY, rows)
    return CandidateHosts(cpu, cpu - view.used(CPU, rows), memory, memory - view.used(MEMORY, rows), left, model)


def mlp_policy(model: Path | None = None) -> Policy:
    """Return the policy ``mlp``: the network chooses the host, the mix that it was trained for chooses the gpu."""
    args = msgspec.json.encode({"model": str(model)}).decode() if model is not None else ""
    return Policy(
        name="mlp",
        summary="the host that a small network scores best",
        scorers=(ScorerUse("mlp", 1, args),),
        ties=("rank", "name"),
        devices="fgd",
        mix=network_at(model).mix.mix,
    )


def network_at(model: Path | None) -> ScorerNetwork:
    """Return the network of a weights file, or the one that comes with the package."""
    return shipped_network() if model is None else _loaded(model)


@lru_cache(maxsize=4)
def _loaded(model: Path) -> ScorerNetwork:
    return load_network(model)
