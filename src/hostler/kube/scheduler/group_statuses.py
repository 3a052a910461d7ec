"""The condition PodGroupInitiallyScheduled of built-in PodGroups, as kube-scheduler writes it.

True is written once, when the minimum is bound, and is never taken back. Groups of the older form have a controller of
their own. Used by ``loop`` and ``process``.
"""

from __future__ import annotations

from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.patience import is_worth_retrying
from hostler.kube.api.resources import POD_GROUPS
from hostler.kube.api.transport import TransportError
from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.times import second_time
from hostler.kube.scheduler.trail import Trail

__all__ = ["GroupStatuses"]

CONDITION = "PodGroupInitiallyScheduled"
_MOST_REMEMBERED = 10_000


class GroupStatuses:
    """Writes how groups are doing."""

    def __init__(self, client: Client, world: World, clock: Clock, trail: Trail, timeout_s: float) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._trail = trail
        self._timeout_s = timeout_s
        self._conditions: dict[str, dict[str, str]] = {}  # not written yet
        self._writing: set[str] = set()
        self._said: dict[str, str] = {}  # by group: the last message, or nothing when it was scheduled

    def placed(self, pod: PodView) -> None:
        """Say that a group was scheduled, once its minimum is bound."""
        gang = self._world.gangs.get(pod.group)
        if gang is None or self._said.get(pod.group) == "":
            return
        if self._world.placed_in(pod.group, pod.uid) >= gang.min_count:
            self._say(pod.group, "True", "Scheduled", "")

    def forget(self, group: str) -> None:
        """Say nothing more about a group that is gone; another may come under its name."""
        self._said.pop(group, None)

    def refused(self, pod: PodView, message: str) -> None:
        """Say why a group of which nothing was placed yet waits."""
        if pod.group in self._world.gangs and self._said.get(pod.group) not in ("", message):
            self._say(pod.group, "False", "Unschedulable", message)

    def _say(self, group: str, status: str, reason: str, message: str) -> None:
        if not self._world.is_built_in(group):
            return
        self._said.pop(group, None)
        self._said[group] = message
        while len(self._said) > _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message or "the minimum of its pods is bound",
            "lastTransitionTime": second_time(self._clock.now()),
        }
        is_first = group not in self._conditions and group not in self._writing
        self._conditions[group] = condition
        if is_first:
            self._trail.later(lambda: self._write(group))

    async def _write(self, group: str) -> None:
        """Write the newest condition; one at a time, so that no older one arrives after it."""
        condition = self._conditions.pop(group, None)
        if condition is None:
            return
        namespace, _, name = group.partition("/")
        body = {"status": {"conditions": [condition]}}
        self._writing.add(group)
        try:
            await self._client.patch(
                POD_GROUPS, namespace, name, body, part="status", kind="strategic", timeout_s=self._timeout_s
            )
        except (ApiError, TransportError) as error:
            self._writing.discard(group)
            if is_worth_retrying(error):
                self._conditions.setdefault(group, condition)  # the trail calls us again
            else:
                self._go_on(group)
            raise
        self._writing.discard(group)
        self._go_on(group)

    def _go_on(self, group: str) -> None:
        if group in self._conditions:
            self._trail.later(lambda: self._write(group))
