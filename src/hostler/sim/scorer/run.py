"""Filling experiments with a policy that asks: guest by guest, as the service would be asked in a cluster."""

from __future__ import annotations

import msgspec
import numpy as np

from hostler.engine import Engine, Registry
from hostler.model import AskUse, Guest, HostsJoined, Policy
from hostler.model.policies import DeviceRule
from hostler.queries import with_mixes
from hostler.sim.fill_experiment import FillExperiment, FillPlacements, FillResult, measure_fill
from hostler.sim.scorer.client import ScorerCallCounts, ScorerClient
from hostler.sim.scorer.placer import FAILURE_MODES, OnFailure, ServicePlacer

__all__ = [
    "FAILURE_MODES",
    "OnFailure",
    "ServiceRun",
    "fill_with_service",
    "service_only_policy",
    "with_service_scores",
]


class ServiceRun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an experiment, and of its questions."""

    result: FillResult
    questions: ScorerCallCounts
    on_failure: OnFailure
    decided_without: int  # guests that were placed or dropped without an answer
    refused_for_no_answer: int


def with_service_scores(policy: Policy, on_failure: OnFailure = "skip") -> Policy:
    """Return a policy that also asks; the answer counts beside its own scorers."""
    return msgspec.structs.replace(policy, ask=AskUse(name="scorer", ignorable=on_failure == "skip"))


def service_only_policy(experiment: FillExperiment, devices: DeviceRule = "best") -> Policy:
    """Return a policy in which nothing but the answer counts, then rank; ``devices`` says which gpus are taken."""
    mix = experiment.mix if devices == "fgd" else ()
    return Policy(name="scorer", ties=("rank", "name"), devices=devices, mix=mix)


def fill_with_service(
    experiment: FillExperiment,
    policy: Policy,
    client: ScorerClient,
    seed: int,
    *,
    on_failure: OnFailure = "skip",
    fall_back: Policy | None = None,
    registry: Registry | None = None,
) -> ServiceRun:
    """Run one experiment. ``on_failure`` says what becomes of a guest when no usable answer comes.

    ``skip`` decides by the policy's own scorers and ties, ``fail`` rejects the guest, ``fall_back`` hands it to the
    policy of that name, and ``stop`` ends the run with an error.
    """
    return _Run(experiment, policy, client, seed, on_failure, fall_back, registry).run()


class _Run:
    def __init__(
        self,
        experiment: FillExperiment,
        policy: Policy,
        client: ScorerClient,
        seed: int,
        on_failure: OnFailure,
        fall_back: Policy | None,
        registry: Registry | None,
    ) -> None:
        policies = [with_service_scores(policy, on_failure), *([fall_back] if fall_back is not None else [])]
        self._experiment, self._policy, self._seed = experiment, policy, seed
        self._client = client
        client.start_over()
        self._on_failure: OnFailure = on_failure
        engine = Engine(with_mixes(policies, experiment.specs), 0, seed, registry=registry)
        engine.apply_many(HostsJoined(hosts=experiment.hosts))
        self._placer = ServicePlacer(engine, client, on_failure, fall_back)

    def run(self) -> ServiceRun:
        """Decide all guests and measure."""
        experiment, placer = self._experiment, self._placer
        row_of = {host.name: row for row, host in enumerate(experiment.hosts)}
        for host in experiment.hosts:
            placer.check_host(host.name)
        count = len(experiment.order)
        width = max((len(host.devices) for host in experiment.hosts), default=0)
        placed = FillPlacements(
            np.full(count, -1, dtype=np.int64),
            np.zeros((count, max(width, 1)), dtype=np.int64),
            np.zeros(count, dtype=np.int64),
        )
        for at, pod in enumerate(experiment.order.tolist()):
            bind = placer.decide(Guest(name=f"pod-{at}", uid=f"pod-{at}", spec=experiment.specs[pod]), 1)
            if bind is not None:
                placed.rows[at] = row_of[bind.host]
                placed.devices[at, : len(bind.devices)] = bind.devices
                placed.counts[at] = len(bind.devices)
        distinct = {spec: number for number, spec in enumerate(dict.fromkeys(experiment.specs))}
        spec_of = np.array([distinct[spec] for spec in experiment.specs], dtype=np.int64)[experiment.order]
        return ServiceRun(
            result=measure_fill(experiment, self._policy, self._seed, tuple(distinct), spec_of, placed),
            questions=self._client.tally,
            on_failure=self._on_failure,
            decided_without=placer.decided_without,
            refused_for_no_answer=placer.refused_for_no_answer,
        )
