"""The built-in policies as data, and the typical mix that ``fgd`` measures by.

The VM strategies keep the formulas of the service they come from; ``spread`` and ``pack`` score like kube-scheduler;
the GPU-sharing family reproduces the published FGD experiments. Each of them breaks ties in a declared order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hostler.engine.cluster.tables import GPU
from hostler.engine.policy.registry import suggest
from hostler.errors import UnknownNameError
from hostler.model import CPU, GuestSpec, MixEntry, Policy, PreemptionRules, ScorerUse, amount_of
from hostler.model.policies import DEFAULT_POLICY, SoftRule, TieKey

__all__ = ["BUILT_IN", "DEFAULT_POLICY", "MAX_MIX", "find_policy", "mix_of_counts", "typical_mix"]

MAX_MIX = 10_000  # entries of a typical mix

_DEFAULT_CPU = 100  # milli-cores that the FGD artifact assumes for a guest without a cpu request

_PREFERENCES = (
    ScorerUse("preferred_hosts", 2),
    ScorerUse("preferred_taints", 3),
    ScorerUse("near_guests", 2),
    ScorerUse("even_spread", 2),
)
# kube-scheduler spreads the pods of one owner by these unless they say otherwise (system defaults).
_KUBERNETES_DEFAULTS = (
    '{"defaults":[{"topology":"kubernetes.io/hostname","max_skew":3,"is_hard":false},'
    '{"topology":"topology.kubernetes.io/zone","max_skew":5,"is_hard":false}]}'
)
_CLASSIC: SoftRule = "first"  # the policies whose own formula leaves no place for preferences beside it
_BY_FEWER_GUESTS: tuple[TieKey, ...] = ("fewer_guests", "name")
_BY_RANK: tuple[TieKey, ...] = ("rank", "name")


def _scored_policies() -> Iterable[Policy]:
    yield Policy(
        name="spread",
        summary="the host with the most free room, evenly used (least allocated + balanced)",
        scorers=(ScorerUse("least_allocated"), ScorerUse("balanced"), *_PREFERENCES),
        ties=_BY_FEWER_GUESTS,
    )
    yield Policy(
        name="pack",
        summary="the host with the least free room, evenly used (most allocated + balanced)",
        scorers=(ScorerUse("most_allocated"), ScorerUse("balanced"), *_PREFERENCES),
        ties=("name",),
        devices="best",
    )
    yield Policy(
        name="kubernetes",
        summary="as kube-scheduler's default profile decides, with its plugins, weights and integer scores",
        scorers=(
            ScorerUse("preferred_taints", 3, '{"always":true}', "TaintToleration"),
            ScorerUse("preferred_hosts", 2, "", "NodeAffinity"),
            ScorerUse("least_allocated", 1, "", "NodeResourcesFit"),
            ScorerUse("even_spread", 2, _KUBERNETES_DEFAULTS, "PodTopologySpread"),
            ScorerUse("near_guests", 2, "", "InterPodAffinity"),
            ScorerUse("balanced", 1, "", "NodeResourcesBalancedAllocation"),
            ScorerUse("image_locality", 1, "", "ImageLocality"),
        ),
        ties=("random", "name"),
        preemption=PreemptionRules(),
    )
    yield Policy(
        name="capacity_ratio",
        summary="the host whose use after the placement scores best on a line of points (fuller is better)",
        scorers=(ScorerUse("capacity_ratio"),),
        ties=_BY_FEWER_GUESTS,
        soft_constraints=_CLASSIC,
    )


def _classic_policies() -> Iterable[Policy]:
    yield Policy(
        name="first_fit",
        summary="the first host by rank and name that fits",
        ties=_BY_RANK,
        devices="best",
        soft_constraints=_CLASSIC,
    )
    yield Policy(
        name="least_loaded",
        summary="the host with the lowest 0.4 cpu + 0.4 memory + 0.2 storage use",
        scorers=(ScorerUse("utilization", -1),),
        ties=_BY_FEWER_GUESTS,
        soft_constraints=_CLASSIC,
    )
    yield Policy(
        name="best_fit",
        summary="the host with the least free capacity (milli-cores + MiB + GiB)",
        scorers=(ScorerUse("free_capacity", -1),),
        ties=_BY_FEWER_GUESTS,
        soft_constraints=_CLASSIC,
    )
    yield Policy(
        name="round_robin",
        summary="the next host by name after the last one",
        ties=("after_last",),
        soft_constraints=_CLASSIC,
    )
    yield Policy(
        name="random",
        summary="any host that fits, and any device",
        ties=("random", "name"),
        devices="random",
        soft_constraints=_CLASSIC,
    )


def _gpu_policies() -> Iterable[Policy]:
    yield Policy(
        name="fgd",
        summary="the host and gpu where the guest fragments free gpus least, for a typical mix",
        scorers=(ScorerUse("fgd", 1000),),
        ties=_BY_RANK,
        devices="fgd",
        soft_constraints=_CLASSIC,
    )
    for name, summary in (
        ("gpu_best_fit", "the host with the least cpu and gpu left"),
        ("dot_product", "the host whose free vector and the request have the smallest product"),
        ("gpu_clustering", "the host that holds only guests with as many gpus"),
        ("gpu_packing", "partly used gpus, then partly used hosts, then small free hosts"),
    ):
        yield Policy(
            name=name,
            summary=summary,
            scorers=(ScorerUse(name, 1000),),
            ties=_BY_RANK,
            devices="best",
            soft_constraints=_CLASSIC,
        )


BUILT_IN: Mapping[str, Policy] = {
    policy.name: policy for policy in (*_scored_policies(), *_classic_policies(), *_gpu_policies())
}


def find_policy(name: str, known: Mapping[str, Policy] = BUILT_IN) -> Policy:
    """Look a policy up by name."""
    policy = known.get(name)
    if policy is None:
        raise UnknownNameError(f"there is no policy {name!r}", hint=suggest(name, known))
    return policy


def typical_mix(specs: Sequence[GuestSpec], *, cover_percent: int = 95, most: int = MAX_MIX) -> tuple[MixEntry, ...]:
    """Return the ``most`` common (cpu, GPU) needs that cover ``cover_percent`` of the guests, with their shares.

    Memory does not count. Shares are computed as in the FGD artifact, (n / N) / (covered / N): other forms differ in
    the last bit, and single ties change.
    """
    return mix_of_counts(((spec, 1) for spec in specs), cover_percent=cover_percent, most=most)


def mix_of_counts(
    guests: Iterable[tuple[GuestSpec, int]], *, cover_percent: int = 95, most: int = MAX_MIX
) -> tuple[MixEntry, ...]:
    """Return the typical mix of guests, given as specs with the number of guests of each."""
    counts: Counter[tuple[int, int, int, str]] = Counter()
    for spec, number in guests:
        gpu = next((d for d in spec.devices if d.kind == GPU), None)
        cpu = amount_of(spec.requests, CPU) or _DEFAULT_CPU
        counts[cpu, gpu.milli if gpu else 0, gpu.count if gpu else 0, "|".join(gpu.models) if gpu else ""] += number
    total = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    chosen: list[tuple[tuple[int, int, int, str], int]] = []
    covered = 0
    for need, count in ordered:
        chosen.append((need, count))
        covered += count
        if covered * 100 >= cover_percent * total or len(chosen) == most:
            break
    return tuple(
        MixEntry(
            cpu_millis=cpu,
            device_millis=milli,
            device_count=devices,
            models=tuple(models.split("|")) if models else (),
            share=(count / total) / (covered / total) if len(chosen) < len(ordered) else count / total,
        )
        for (cpu, milli, devices, models), count in chosen
    )
