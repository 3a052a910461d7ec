"""Built policies as columns for the kernels: operations, weights, parameters, tie keys and typical mixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.tables import GPU, Table
from hostler.engine.kernels.layout import (
    DEVICE_RULES,
    NORMALIZERS,
    OP_OUTER,
    PARAMS,
    PREFERENCE,
    TIES,
    Int64s,
    MixColumns,
    PolicyColumns,
)
from hostler.engine.policy.profile import Profile
from hostler.model import CPU, MixEntry

__all__ = ["encode_policies", "resources_of"]

_MOVING_TIES = frozenset({"random", "after_last"})


def resources_of(profiles: Sequence[Profile]) -> list[str]:
    """Return the resources that scorers read."""
    found: Table[str] = Table()
    for profile in profiles:
        for scorer in profile.scorers:
            if scorer.kernel is not None:
                scorer.kernel.parameters(found)
    return found.values


def encode_policies(profiles: Sequence[Profile], cluster: Cluster, last_key: Int64s) -> PolicyColumns:
    """Return the arrays for a kernel, by the current numbers of names."""
    count, width = len(profiles), max(1, *(len(p.all_scorers) for p in profiles), 1)
    tables = cluster.tables
    op = np.zeros((count, width), dtype=np.int32)
    weight = np.zeros((count, width), dtype=np.int64)
    normalizer = np.zeros((count, width), dtype=np.int32)
    normal_slot = np.full((count, width), -1, dtype=np.int32)
    params = np.zeros((count, width, PARAMS), dtype=np.int64)
    ties = np.zeros((count, 4), dtype=np.int32)
    for p, profile in enumerate(profiles):
        slot = 0
        for x, scorer in enumerate(profile.all_scorers):
            weight[p, x] = scorer.use.weight * (PREFERENCE if x >= len(profile.scorers) else 1)
            normalizer[p, x] = NORMALIZERS[scorer.normalizer]
            if scorer.normalizer != "none":
                normal_slot[p, x] = slot
                slot += 1
            op[p, x] = OP_OUTER
            if scorer.kernel is not None:
                op[p, x] = scorer.kernel.operation
                encoded = scorer.kernel.parameters(tables.resources)
                params[p, x, : len(encoded)] = encoded
        for k, tie in enumerate(profile.policy.ties):
            ties[p, k] = TIES[tie]
    mix = encode_mixes([profile.policy.mix for profile in profiles], tables.models)
    cluster.fit_layout()
    resource_code = np.zeros(cluster.resource_capacity, dtype=np.int16)
    for number in range(len(tables.resources)):
        resource_code[number] = tables.insufficient(number)
    return PolicyColumns(
        limit_set=np.array([p.limit_set for p in profiles], dtype=np.int32),
        scorers=np.array([len(p.scorers) for p in profiles], dtype=np.int32),
        op=op,
        weight=weight,
        normalizer=normalizer,
        normal_slot=normal_slot,
        is_float=np.array([p.is_float for p in profiles], dtype=np.int8),
        params=params,
        ties=ties,
        has_moving_ties=np.array([bool(_MOVING_TIES & set(p.policy.ties)) for p in profiles], dtype=np.int8),
        device_rule=np.array([DEVICE_RULES[p.policy.devices] for p in profiles], dtype=np.int32),
        last_key=last_key,
        cpu=np.array([tables.resources.number(CPU)], dtype=np.int64),
        gpu_kind=np.array([tables.kinds.number(GPU)], dtype=np.int16),
        resource_code=resource_code,
        device_code=np.array([tables.device_codes(k) for k in range(len(tables.kinds))], dtype=np.int16),
        mix=mix,
    )


def encode_mixes(mixes: Sequence[Sequence[MixEntry]], models: Table[str]) -> MixColumns:
    """Return the typical mixes of all policies, concatenated."""
    entries = [entry for mix in mixes for entry in mix]
    bounds = np.zeros((len(mixes), 4), dtype=np.int32)
    allowed = np.zeros((max(len(entries), 1), len(models)), dtype=np.int8)
    levels: list[int] = []
    level_of: list[int] = []
    for p, mix in enumerate(mixes):
        own_levels = sorted({entry.device_millis for entry in mix if entry.device_millis})
        bounds[p] = (len(level_of), len(level_of) + len(mix), len(levels), len(levels) + len(own_levels))
        for entry in mix:
            wanted = [number for model in entry.models if (number := models.find(model)) >= 0]
            allowed[len(level_of), wanted if entry.models else slice(None)] = 1
            level_of.append(own_levels.index(entry.device_millis) if entry.device_millis else 0)
        levels.extend(own_levels)
    return MixColumns(
        bounds=bounds,
        cpu=np.array([e.cpu_millis for e in entries] or [0], dtype=np.int64),
        milli=np.array([e.device_millis for e in entries] or [0], dtype=np.int64),
        devices=np.array([e.device_count for e in entries] or [0], dtype=np.int64),
        share=np.array([e.share for e in entries] or [0.0], dtype=np.float64),
        level=np.array(level_of or [0], dtype=np.int32),
        model=allowed,
        level_milli=np.array(levels or [0], dtype=np.int64),
    )
