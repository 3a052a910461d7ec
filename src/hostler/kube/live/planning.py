"""Where pods would go that do not exist yet, who would be evicted for them, and why some would go nowhere.

The engine is asked to do it on a twin: everything pending is decided in the scheduler's own order, the planned pods
among them; victims leave at once, and extenders cannot be asked. Used by ``hostler kube plan`` and by the service.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.engine import Engine
from hostler.errors import InputError
from hostler.kube.api.store import Update
from hostler.kube.facts.world import World
from hostler.kube.live.planned import PREFIX, Planned
from hostler.kube.live.snapshot import apply_all
from hostler.kube.live.waiting import waiting_messages
from hostler.model import Action, Answered, Ask, Evict, GuestLeft, Nominate, PolicyChanged, Prepare, Prepared

__all__ = ["Plan", "PlannedEviction", "PlannedPod", "make_plan", "run_to_rest"]

_LIMIT = 4096
_ROUNDS = 200  # of decisions, answers and departures; more than any queue that comes to rest needs
_PAUSE_NS = 15_000_000_000  # longer than any backoff: who may be tried again is


class PlannedPod(msgspec.Struct, frozen=True, kw_only=True):
    """Where one pod would go, or why nowhere, in kube-scheduler's words."""

    namespace: str
    name: str
    node: str = ""
    devices: tuple[int, ...] = ()
    feasible: int = 0
    nodes: int = 0
    reason: str = ""


class PlannedEviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that would have to go, and for whom."""

    namespace: str
    name: str
    node: str
    preemptor: str
    reason: str
    broken_budgets: tuple[str, ...] = ()  # that allow no more evictions

    @property
    def why(self) -> str:
        """Return the reason, with the budgets that it breaks."""
        return "; ".join((self.reason, *(f"breaks budget {name}" for name in self.broken_budgets)))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen if some pods came now."""

    pods: tuple[PlannedPod, ...]
    evicted: tuple[PlannedEviction, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Say whether all of them would be placed."""
        return all(pod.node for pod in self.pods)


def make_plan(world: World, engine: Engine, planned: Planned, now: int, *, may_evict: bool = True) -> Plan:
    """Let planned pods come to a cluster. World and engine are used up: give twins."""
    for resource, key, _ in planned.objects:
        if resource.kind == "Pod" and any((pod.namespace, pod.name) == key for pod in world.pods.values()):
            raise InputError(
                f"pod {'/'.join(key)} exists already", hint="'hostler explain' tells why it is where it is"
            )
    if not may_evict:
        policies = tuple(msgspec.structs.replace(one, preemption=None, reclaim=False) for one in engine.policies)
        engine.apply(PolicyChanged(policies=policies))
    refused = []
    for resource, key, item in planned.objects:
        refused += apply_all(engine, world.take(resource, [Update(key, None, item)], now))
    later = now + 2_000_000_000  # groups that only annotations name are told when they were quiet for a while
    refused += apply_all(engine, world.tick(later))
    budgets = _Budgets(engine)
    actions = run_to_rest(engine, later)
    messages = waiting_messages(engine, planned.uids)
    pods = tuple(_planned_pod(world, engine, uid, messages.get(uid, "")) for uid in planned.uids)
    evicted = tuple(
        _eviction(world, action, budgets.charge(action.uid)) for action in actions if isinstance(action, Evict)
    )
    return Plan(pods=pods, evicted=evicted, notes=(*planned.notes, *dict.fromkeys(refused)))


def run_to_rest(engine: Engine, now: int) -> list[Action]:
    """Decide until nobody is left who could be tried; return all actions."""
    done: list[Action] = []
    rounds = 0
    while rounds < _ROUNDS:
        rounds += not engine.is_searching  # a search ends by itself
        actions = engine.step(now, _LIMIT)
        done += actions
        is_news = _answer(engine, actions, now)
        for uid in list(engine.view.evicting):
            engine.apply(GuestLeft(uid=uid, at=now))
            is_news = True
        due = engine.next_due()
        if due is None:
            break
        if due <= now:
            continue
        if not is_news and not any(not isinstance(action, Nominate) for action in actions):
            break
        now += _PAUSE_NS
    return done


def _answer(engine: Engine, actions: Iterable[Action], now: int) -> bool:
    """Answer what waits for somebody outside: nobody is asked, and everything can be prepared."""
    had_any = False
    for action in actions:
        if isinstance(action, Ask):
            engine.apply(Answered(uid=action.uid, ask=action.ask, error="nobody is asked for a plan", at=now))
            had_any = True
        elif isinstance(action, Prepare):
            engine.apply(Prepared(uid=action.uid, host=action.host, at=now))
            had_any = True
    return had_any


def _planned_pod(world: World, engine: Engine, uid: str, why: str) -> PlannedPod:
    space, _, name = uid.removeprefix(PREFIX).partition("/")
    if uid not in engine.view.records:
        pod = world.pods.get(uid)
        problem = pod.problem if pod is not None else ""
        return PlannedPod(namespace=space, name=name, reason=problem or "it cannot be read")
    decision = engine.decision(uid)
    return PlannedPod(
        namespace=space,
        name=name,
        node=decision.host,
        devices=decision.devices,
        feasible=decision.feasible,
        nodes=decision.hosts,
        reason=why,
    )


class _Budgets:
    """What disruption budgets still allow, as evictions are counted against them one by one."""

    def __init__(self, engine: Engine) -> None:
        self._guests = {uid: record.guest for uid, record in engine.view.records.items()}
        self._budgets = dict(engine.view.budgets)
        self._left = {key: budget.allowed for key, budget in self._budgets.items()}

    def charge(self, uid: str) -> tuple[str, ...]:
        """Count an eviction; return the budgets that it breaks."""
        guest = self._guests.get(uid)
        if guest is None:
            return ()
        broken = []
        for key, budget in self._budgets.items():
            if not budget.concerns(guest):
                continue
            self._left[key] -= 1
            if self._left[key] < 0:
                broken.append(key)
        return tuple(broken)


def _eviction(world: World, action: Evict, broken: tuple[str, ...]) -> PlannedEviction:
    pod = world.pods.get(action.uid)
    preemptor = world.pods.get(action.preemptor)
    return PlannedEviction(
        namespace=pod.namespace if pod is not None else "",
        name=pod.name if pod is not None else action.guest,
        node=action.host,
        preemptor=f"{preemptor.namespace}/{preemptor.name}" if preemptor is not None else action.preemptor,
        reason=action.reason,
        broken_budgets=broken,
    )
