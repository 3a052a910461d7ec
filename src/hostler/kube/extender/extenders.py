"""Call third-party extenders about the nodes that fit, by kube-scheduler's rules.

They filter one after the other, each the nodes that the one before left. Then all that score are called at once. The
sum goes to the engine as the answer to its ``Ask``. The call function is a parameter, so this works with any transport.
The preempt verb is never called: victims are chosen here, and the extenders then filter the pod's node as usual.

An extender is called only for pods that request a resource that it manages, or for all pods.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from hostler.errors import HostlerError, InputError, UnavailableError
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    NodeList,
    name_of,
    read_message,
    read_priorities,
)
from hostler.kube.settings import ExtenderSettings
from hostler.model import Answered, Ask, AskUse, Policy
from hostler.runtime.transport import TransportError

__all__ = ["ASKED", "Call", "Extenders", "FindNodes", "with_extenders"]

Json: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[[ExtenderSettings, str, bytes], Awaitable[bytes]]  # an extender, a verb, a body
FindNodes: TypeAlias = Callable[[Sequence[str]], list[Json] | Awaitable[list[Json]]]

ASKED = "extenders"
_TO_NODE_SCORE = 10  # extenders give 0 to 10, plugins 0 to 100
_MOST = 10
_NS_PER_S = 1_000_000_000
_SLACK_S = 5.0  # beyond the extenders' time limits: for reading the pod and its nodes
_MAX_TEXT = 1000


def with_extenders(policies: Sequence[Policy], settings: Sequence[ExtenderSettings]) -> tuple[Policy, ...]:
    """Make policies wait for the extenders' answer, if any extender filters or scores."""
    filters = [one for one in settings if one.filter_verb]
    scorers = [one for one in settings if one.prioritize_verb]
    if not filters and not scorers:
        return tuple(policies)
    longest = sum(one.timeout_s for one in filters) + max((one.timeout_s for one in scorers), default=0.0) + _SLACK_S
    ask = AskUse(ASKED, timeout_ns=int(longest * _NS_PER_S), always=True)
    return tuple(msgspec.structs.replace(policy, ask=ask) for policy in policies)


class Extenders:
    """Calls the extenders."""

    def __init__(self, settings: Sequence[ExtenderSettings], call: Call) -> None:
        self._settings = tuple(settings)
        self._call = call

    async def answer(self, ask: Ask, pod: Json, nodes: FindNodes) -> Answered:
        """Query the hosts of ``ask``; ``nodes`` finds whole nodes for extenders that keep no cache."""
        interested = [one for one in self._settings if is_interested(one, pod)]
        left: list[str] = list(ask.hosts)
        refused: dict[str, str] = {}
        for extender in interested:
            if not extender.filter_verb or not left:
                continue
            args = await _args(extender, pod, left, nodes)
            try:
                left, failed = await self._filter(extender, args, left)
            except Exception as error:  # the call may be third-party code
                if extender.is_ignorable:
                    continue
                return Answered(uid=ask.uid, ask=ask.ask, error=_trouble(extender, error))
            refused |= failed
        scores = await self._scores([one for one in interested if one.prioritize_verb], pod, left, nodes)
        return Answered(
            uid=ask.uid,
            ask=ask.ask,
            scores=tuple((name, scores.get(name, 0)) for name in left),
            refused=tuple(refused.items()),
        )

    @property
    def has_binder(self) -> bool:
        """Return whether any extender binds pods itself."""
        return any(one.bind_verb for one in self._settings)

    def binder_of(self, pod: Json) -> ExtenderSettings | None:
        """Return the extender that binds a pod in our place, or None."""
        return next((one for one in self._settings if one.bind_verb and is_interested(one, pod)), None)

    async def bind(self, extender: ExtenderSettings, namespace: str, name: str, uid: str, node: str) -> None:
        """Let an extender bind. ``TransportError`` means that the outcome is unknown."""
        args = ExtenderBindingArgs(PodName=name, PodNamespace=namespace, PodUID=uid, Node=node)
        try:
            body = await self._call(extender, extender.bind_verb, msgspec.json.encode(args))
            result = read_message(body, ExtenderBindingResult)
        except HostlerError as error:
            is_known = isinstance(error, TransportError) and not error.may_have_acted
            raise TransportError(_trouble(extender, error), may_have_acted=not is_known) from error
        if result.Error:
            raise UnavailableError(f"extender {extender.url_prefix} did not bind: {result.Error[:_MAX_TEXT]}")

    async def _filter(
        self, extender: ExtenderSettings, args: bytes, names: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        result = read_message(await self._call(extender, extender.filter_verb, args), ExtenderFilterResult)
        if result.Error:
            raise UnavailableError(result.Error)
        if extender.is_node_cache_capable and result.NodeNames is not None:
            kept = result.NodeNames
        else:
            items = result.Nodes.items if result.Nodes is not None else None
            kept = [name_of(item) for item in items or []]
        asked = set(names)
        for name in kept:
            if name not in asked:
                raise InputError(f"its answer has node {name!r:.80}, which was not in the request")
        left = dict.fromkeys(kept)
        failed = {**(result.FailedNodes or {}), **(result.FailedAndUnresolvableNodes or {})}
        why = f"rejected by extender {extender.url_prefix}"
        return list(left), {name: failed.get(name, why)[:_MAX_TEXT] for name in names if name not in left}

    async def _scores(
        self, extenders: Sequence[ExtenderSettings], pod: Json, names: list[str], nodes: FindNodes
    ) -> dict[str, int]:
        """Sum up the scores; an extender that fails contributes none."""
        if not names:
            return {}
        answers = await asyncio.gather(*(self._score(one, pod, names, nodes) for one in extenders))
        total = dict.fromkeys(names, 0)
        for answer in answers:
            for name, score in answer.items():
                if name in total:
                    total[name] += score
        return total

    async def _score(self, extender: ExtenderSettings, pod: Json, names: list[str], nodes: FindNodes) -> dict[str, int]:
        try:
            args = await _args(extender, pod, names, nodes)
            answer = read_priorities(await self._call(extender, extender.prioritize_verb, args))
        except HostlerError:
            return {}
        return {one.Host: min(max(one.Score, 0), _MOST) * extender.weight * _TO_NODE_SCORE for one in answer}


def _trouble(extender: ExtenderSettings, error: Exception) -> str:
    """Describe which extender failed and how, for the owner of the waiting pod."""
    why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
    return f"extender {extender.url_prefix}: {why}"[:_MAX_TEXT]


async def _args(extender: ExtenderSettings, pod: Json, names: list[str], nodes: FindNodes) -> bytes:
    if extender.is_node_cache_capable:
        return msgspec.json.encode(ExtenderArgs(Pod=pod, NodeNames=names))
    found = nodes(names)
    items = await found if inspect.isawaitable(found) else found
    return msgspec.json.encode(ExtenderArgs(Pod=pod, Nodes=NodeList(items)))


def is_interested(extender: ExtenderSettings, pod: dict[str, Any]) -> bool:
    """Return whether an extender handles a pod, given as it came from the API."""
    if not extender.managed_resources:
        return True
    managed = set(extender.managed_resources)
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return False
    return any(not managed.isdisjoint(names) for names in _resource_names(spec))


def _resource_names(spec: dict[str, Any]) -> list[set[str]]:
    """Return the names in requests and limits of all containers, and of the pod as a whole."""
    holders = [spec]
    for key in ("containers", "initContainers"):
        containers = spec.get(key)
        holders += [one for one in containers if isinstance(one, dict)] if isinstance(containers, list) else []
    found = []
    for holder in holders:
        resources = holder.get("resources")
        if isinstance(resources, dict):
            amounts = (resources.get("requests"), resources.get("limits"))
            found += [set(one) for one in amounts if isinstance(one, dict)]
    return found
