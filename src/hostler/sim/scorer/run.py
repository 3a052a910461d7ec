"""Filling experiments with a policy that asks: guest by guest, as the service would be asked in a cluster."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import numpy as np

from hostler.engine import Engine, Registry
from hostler.errors import InputError
from hostler.model import (
    Action,
    Ask,
    AskUse,
    Bind,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    HostsJoined,
    Policy,
)
from hostler.model.policies import DeviceRule
from hostler.queries import Carrier, run_until_idle, with_mixes
from hostler.sim.fill_experiment import FillExperiment, FillPlacements, FillResult, measure_fill
from hostler.sim.scorer.client import ScorerCallCounts, ScorerClient
from hostler.sim.scorer.nodes import NodeTexts

__all__ = [
    "FAILURE_MODES",
    "OnFailure",
    "ServiceRun",
    "fill_with_service",
    "service_only_policy",
    "with_service_scores",
]

OnFailure = Literal["skip", "fail", "fall_back"]
FAILURE_MODES: tuple[str, ...] = get_args(OnFailure)


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

    ``skip`` decides by the policy's own scorers and ties, ``fail`` rejects the guest, and ``fall_back`` hands it to
    the policy of that name.
    """
    return _Run(experiment, policy, client, seed, on_failure, fall_back, registry).run()


class _Run(Carrier):
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
        if (fall_back is not None) != (on_failure == "fall_back"):
            raise InputError("a policy to fall back to goes with on_failure = fall_back, and only with that")
        policies = [with_service_scores(policy, on_failure), *([fall_back] if fall_back is not None else [])]
        self._experiment, self._policy, self._seed = experiment, policy, seed
        self._client = client
        client.start_over()
        self._on_failure: OnFailure = on_failure
        self._fall_back = fall_back
        self._engine = Engine(with_mixes(policies, experiment.specs), 0, seed, registry=registry)
        self._engine.apply_many(HostsJoined(hosts=experiment.hosts))
        self._nodes = NodeTexts(self._engine, client.options.variant)
        self._without = 0
        self._refused = 0
        self._guest = Guest(name="", uid="")  # that is being decided
        self._bind: Bind | None = None

    def run(self) -> ServiceRun:
        """Decide all guests and measure."""
        experiment = self._experiment
        row_of = {host.name: row for row, host in enumerate(experiment.hosts)}
        for host in experiment.hosts:
            self._nodes.text(host.name)  # a host that cannot be encoded is an error before the run, not during it
        count = len(experiment.order)
        width = max((len(host.devices) for host in experiment.hosts), default=0)
        placed = FillPlacements(
            np.full(count, -1, dtype=np.int64),
            np.zeros((count, max(width, 1)), dtype=np.int64),
            np.zeros(count, dtype=np.int64),
        )
        for at, pod in enumerate(experiment.order.tolist()):
            bind = self._decide(Guest(name=f"pod-{at}", uid=f"pod-{at}", spec=experiment.specs[pod]))
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
            decided_without=self._without,
            refused_for_no_answer=self._refused,
        )

    def _decide(self, guest: Guest) -> Bind | None:
        """Decide one guest; who is not placed leaves at once."""
        engine = self._engine
        engine.apply(GuestArrived(guest=guest))
        self._guest, self._bind = guest, None
        run_until_idle(engine, 1, self)
        if self._bind is None:
            engine.apply(GuestLeft(uid=guest.uid))
        return self._bind

    def carry_out(self, actions: list[Action], now: int) -> bool:
        """Put the engine's question to the service, and the answer to the engine."""
        for action in actions:
            if isinstance(action, Ask):
                self._answer(action)
            elif isinstance(action, Bind):
                self._bind = action
        return not any(isinstance(action, Ask) for action in actions)

    def _answer(self, ask: Ask) -> None:
        guest = self._guest
        answer = self._client.answer(ask, guest, self._nodes)
        if answer.error:
            self._without += self._on_failure != "fail"
            self._refused += self._on_failure == "fail"
        if answer.error and self._fall_back is not None:
            spec = msgspec.structs.replace(guest.spec, policy=self._fall_back.name)
            self._engine.apply(GuestChanged(guest=msgspec.structs.replace(guest, spec=spec)))
        else:
            self._engine.apply(answer)
