"""The verbs of an extender: a message in, a message out.

Bad input never raises: it becomes the ``Error`` of the answer, which kube-scheduler shows at the pod. Only ``bind``
writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from hostler.errors import HostlerError, InputError
from hostler.kube.api.failures import ApiError
from hostler.kube.extender.adviser import Adviser, Ranking
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
    name_of,
)
from hostler.manifests import Pod, Surroundings, read_pod
from hostler.manifests.places import DEFAULT_NAMESPACE, pod_place
from hostler.manifests.pods.gpus import GPU_INDEX
from hostler.manifests.pods.guests import read_spec
from hostler.model import GuestSpec
from hostler.runtime.clock import NANOSECONDS, Clock

__all__ = ["Bind", "ExtenderService", "FindPod"]

# Namespace, name, uid, node and annotations of a bind; namespace and name of a pod to find.
Bind: TypeAlias = Callable[[str, str, str, str, Mapping[str, str]], Awaitable[None]]
FindPod: TypeAlias = Callable[[str, str], Awaitable[Pod]]

NOT_READY = "the cluster is not synced yet: try again"
_BEST = 10  # the highest score of the protocol
_ASSUMED_S = 30.0  # between the choice of a node and the watch that shows the pod there
_REMEMBERED = 4096  # pods whose shape is known from the last query, for the bind that follows
_STUMBLES = (HostlerError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ExtenderService:
    """Answers with an adviser's results; until there is one, it answers with an error."""

    def __init__(self, clock: Clock, bind: Bind, find_pod: FindPod, *, nodes_per_filter: int = 1) -> None:
        self.adviser: Adviser | None = None
        self._clock = clock
        self._bind = bind
        self._find_pod = find_pod
        self._most = nodes_per_filter
        self._specs: dict[str, GuestSpec] = {}

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Keep the best nodes; for each of the others, say why it does not fit or that it is not among the best."""
        try:
            uid, spec, ranking = self._judge(args)
            kept = [name for name, _ in ranking.order[: self._most]]
            self._expect(uid, spec, kept)
        except _STUMBLES as error:
            return ExtenderFilterResult(Error=_text(error))
        failed, unresolvable = _failures(ranking, len(kept))
        result = ExtenderFilterResult(FailedNodes=failed, FailedAndUnresolvableNodes=unresolvable)
        if args.NodeNames is not None:
            result.NodeNames = kept
        else:
            items = {name_of(item): item for item in (args.Nodes.items if args.Nodes else None) or []}
            result.Nodes = NodeList([items[name] for name in kept])
        return result

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Score the nodes from 0 to 10: the best that fits gets 10, nodes that do not fit get 0."""
        try:
            _, _, ranking = self._judge(args)
        except _STUMBLES:
            return [HostPriority(name, 0) for name in args.names()]
        found = dict.fromkeys(ranking.refused, 0)
        if ranking.order:
            high, low = ranking.order[0][1], ranking.order[-1][1]
            span = high - low
            found |= {name: int(_BEST * (score - low) / span) if span else _BEST for name, score in ranking.order}
        return [HostPriority(name, score) for name, score in found.items()]

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """Accept every candidate: kube-scheduler chooses the victims."""
        found = dict(args.NodeNameToMetaVictims or {})
        for node, victims in (args.NodeNameToVictims or {}).items():
            uids = [_uid_of(pod) for pod in victims.Pods or []]
            found[node] = MetaVictims([MetaPod(uid) for uid in uids if uid], victims.NumPDBViolations)
        return ExtenderPreemptionResult(found)

    async def bind(self, args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Bind a pod to a node, and write its GPUs into its annotations."""
        try:
            adviser = self._ready()
            spec = self._specs.get(args.PodUID) or await self._spec_of(args)
            devices = adviser.devices(args.PodUID, spec, args.Node)
            adviser.assume(args.PodUID, spec, args.Node, devices, self._until())
            annotations = {GPU_INDEX: "-".join(map(str, devices))} if devices else {}
            await self._bind(args.PodNamespace, args.PodName, args.PodUID, args.Node, annotations)
        except _STUMBLES as error:
            if isinstance(error, ApiError) and not error.may_have_acted and self.adviser is not None:
                self.adviser.forget(args.PodUID)
            return ExtenderBindingResult(_text(error))
        self._specs.pop(args.PodUID, None)
        return ExtenderBindingResult()

    def forget(self, uid: str) -> None:
        """Drop the assumption about a pod that has its node or is gone."""
        self._specs.pop(uid, None)
        if self.adviser is not None:
            self.adviser.forget(uid)

    def _judge(self, args: ExtenderArgs) -> tuple[str, GuestSpec, Ranking]:
        adviser = self._ready()
        if args.Pod is None:
            raise InputError("the request has no Pod")
        pod = read_pod(args.Pod)
        uid = pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"
        spec = _spec(pod)
        self._specs.pop(uid, None)
        self._specs[uid] = spec
        if len(self._specs) > _REMEMBERED:
            del self._specs[next(iter(self._specs))]
        return uid, spec, adviser.rank(uid, spec, args.names())

    def _expect(self, uid: str, spec: GuestSpec, kept: list[str]) -> None:
        """Assume a pod on its node if exactly one is left; otherwise assume it nowhere."""
        adviser = self._ready()
        adviser.forget(uid)
        if len(kept) == 1:
            adviser.assume(uid, spec, kept[0], adviser.devices(uid, spec, kept[0]), self._until())

    async def _spec_of(self, args: ExtenderBindingArgs) -> GuestSpec:
        pod = await self._find_pod(args.PodNamespace, args.PodName)
        if pod.metadata.uid != args.PodUID:
            raise InputError(f"pod {args.PodNamespace}/{args.PodName} has another uid by now")
        return _spec(pod)

    def _ready(self) -> Adviser:
        if self.adviser is None:
            raise InputError(NOT_READY)
        self.adviser.expire(self._clock.now())
        return self.adviser

    def _until(self) -> int:
        return self._clock.now() + int(_ASSUMED_S * NANOSECONDS)


def _spec(pod: Pod) -> GuestSpec:
    """Return the shape of a pod. kube-scheduler handles volumes and claims."""
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    place = pod_place(namespace, pod.metadata.name)
    spec, _ = read_spec(pod, namespace, place, Surroundings(), None, is_live=True)
    return msgspec.structs.replace(spec, unsupported=())


def _failures(ranking: Ranking, kept: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rejected nodes: those where an eviction may help, and those where none does."""
    failed = {name: why for name, why in ranking.refused.items() if name not in ranking.unresolvable}
    if ranking.order:
        best, score = ranking.order[0]
        failed |= {name: f"score {one:g}, {best} has {score:g}" for name, one in ranking.order[kept:]}
    return failed, {name: ranking.refused[name] for name in ranking.unresolvable}


def _uid_of(pod: dict[str, Any]) -> str:
    metadata = pod.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _text(error: Exception) -> str:
    text = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:1000] or "it failed"
