"""Places guests one by one, each with the scores of a service: the engine asks, and the service answers.

Fill experiments and ``hostler sim apply`` use the same placer. It decides nothing itself.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import msgspec

from hostler.engine import Engine
from hostler.errors import InputError, UnavailableError
from hostler.model import Action, Answered, Ask, Bind, Guest, GuestArrived, GuestChanged, GuestLeft, Policy
from hostler.queries import Carrier, run_until_idle
from hostler.sim.scorer.client import ScorerClient
from hostler.sim.scorer.nodes import NodeTexts

__all__ = ["FAILURE_MODES", "OnFailure", "ServicePlacer", "ServiceUse"]

OnFailure = Literal["skip", "fail", "fall_back", "stop"]
FAILURE_MODES: tuple[str, ...] = get_args(OnFailure)

_HINTS = {
    "no_connection": "start the service, for example with 'hostler sim scorer serve', or name another --endpoint",
    "timed_out": "give it longer with --timeout, or see what keeps the service busy",
    "status": "see the log of the service",
    "broken_connection": "see the log of the service",
    "request_too_large": "the cluster is too large for one question about all of its nodes",
}
_HINT = 'the answer to a question is {"scores": {"NODE": 0 to 100}}; see docs/guides/own-model.md'


class ServiceUse(NamedTuple):
    """The service to ask, and what happens to a guest without an answer."""

    client: ScorerClient
    on_failure: OnFailure


class ServicePlacer(Carrier):
    """Decides guest after guest; ``on_failure`` says what happens to one for which no usable answer comes.

    ``skip`` decides by the policy's own scorers and ties, ``fail`` rejects the guest, ``fall_back`` hands it to the
    other policy, and ``stop`` ends the run with an error. Without ``asks_about_one`` the service is not asked about a
    guest that fits on one host only: no score could change that, and kube-scheduler does not score then either.
    """

    def __init__(
        self,
        engine: Engine,
        client: ScorerClient,
        on_failure: OnFailure,
        fall_back: Policy | None = None,
        *,
        asks_about_one: bool = True,
    ) -> None:
        if (fall_back is not None) != (on_failure == "fall_back"):
            raise InputError("a policy to fall back to goes with on_failure = fall_back, and only with that")
        self.decided_without = 0
        self.refused_for_no_answer = 0
        self._engine = engine
        self._client = client
        self._on_failure = on_failure
        self._fall_back = fall_back
        self._fewest = 1 if asks_about_one else 2  # hosts that a question is about
        self._nodes = NodeTexts(engine, client.options.variant)
        self._guest = Guest(name="", uid="")  # that is being decided
        self._bind: Bind | None = None

    def check_host(self, name: str) -> None:
        """Encode a host: one that cannot be encoded is an error before the run, not during it."""
        self._nodes.text(name)

    def decide(self, guest: Guest, now: int) -> Bind | None:
        """Decide one guest; one that is not placed leaves at once."""
        self._engine.apply(GuestArrived(guest=guest))
        self._guest, self._bind = guest, None
        run_until_idle(self._engine, now, self)
        if self._bind is None:
            self._engine.apply(GuestLeft(uid=guest.uid))
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
        if len(ask.hosts) < self._fewest:
            self._engine.apply(Answered(uid=ask.uid, ask=ask.ask, scores=tuple((host, 0) for host in ask.hosts)))
            return
        guest = self._guest
        answer = self._client.answer(ask, guest, self._nodes)
        if answer.error and self._on_failure == "stop":
            raise self._stop(guest, answer.error)
        if answer.error:
            self.decided_without += self._on_failure != "fail"
            self.refused_for_no_answer += self._on_failure == "fail"
        if answer.error and self._fall_back is not None:
            spec = msgspec.structs.replace(guest.spec, policy=self._fall_back.name)
            self._engine.apply(GuestChanged(guest=msgspec.structs.replace(guest, spec=spec)))
        else:
            self._engine.apply(answer)

    def _stop(self, guest: Guest, error: str) -> UnavailableError:
        """Return the error for a guest without an answer; the client counted it, and its kind is the hint."""
        endpoint = self._client.options.endpoint
        kind = next(iter(self._client.tally.failures), "")
        text = error if endpoint in error else f"{endpoint}: {error}"
        return UnavailableError(
            f"no score for pod {guest.spec.namespace}/{guest.name}: {text}", hint=_HINTS.get(kind, _HINT)
        )
