"""Log lines about a scheduler as a whole: start, leadership, configuration reloads, end. Used by ``main``.

``Complaints`` logs lasting problems: when one has lasted for a moment, then once a minute, and when it is over. A
scheduler that cannot list or gets no lease waits and retries; its log must say why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler._version import __version__
from hostler.errors import HostlerError
from hostler.kube.scheduler.changes import Changes
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.settings import SchedulerSettings
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.telemetry.log import Log

__all__ = ["Complaints", "TermReport", "log_start", "log_synced", "reload"]

_EVERY_S = 2.0
_AGAIN_NS = 60 * NANOSECONDS
_MOST = 5  # lines each time; an outage has the same reason for all


def log_start(log: Log, settings: SchedulerSettings, config: str = "") -> None:
    """Log what is about to run, so that the log explains itself; ``config``: by which file."""
    limits, election = settings.limits, settings.election
    log.info(
        "starting",
        version=__version__,
        profiles=",".join(f"{one.scheduler_name}:{one.policy}" for one in settings.profiles),
        lease=f"{election.namespace}/{election.name}" if election.is_on else "none",
        config=config or "none",
        one_pod_per_node=_one_pod_per_node(settings),
        max_in_flight=limits.max_in_flight,
        bind_timeout_s=limits.bind_timeout_s,
        extenders=len(settings.extenders),
        listen=settings.listen or "none",
    )
    for line in settings.notes:
        log.warn(line)


def _one_pod_per_node(settings: SchedulerSettings) -> str:
    """Describe which policies give each node to one pod: all, none, or some by name."""
    found = [policy.name for policy in settings.policies if policy.one_guest_per_host]
    if len(found) == len(settings.policies):
        return "yes"
    return ",".join(found) or "no"


def log_synced(log: Log, scheduler: Scheduler, clock: Clock) -> None:
    """Log that everything was listed, with the numbers of objects."""
    pods = scheduler.cluster.pods.values()
    log.info(
        "scheduling",
        nodes=len(scheduler.cluster.hosts),
        pods=len(pods),
        waiting=sum(pod.is_ours and not pod.node for pod in pods),
        seconds=(clock.now() - scheduler.led_at) / NANOSECONDS,
    )


class TermReport:
    """Logs how one term ended, and what was done in it."""

    def __init__(self, scheduler: Scheduler, log: Log, clock: Clock) -> None:
        self._scheduler = scheduler
        self._log = log
        self._clock = clock
        self._began = clock.now()

    def log_end(self, ending: Ending) -> None:
        """Log how it ended, and what was done."""
        parts = self._scheduler
        sums = {
            "bound": parts.binder.counts.bound,
            "binds_failed": parts.binder.counts.refused,
            "evicted": parts.executors.evictor.counts.evicted,
            "written": parts.write_queue.counts.written,
            "not_written": parts.write_queue.counts.refused,
            "seconds": (self._clock.now() - self._began) / NANOSECONDS,
        }
        if ending == "stopped":
            self._log.info("stopped", **sums)
            return
        lease = f"{parts.settings.election.namespace}/{parts.settings.election.name}"
        why = parts.mandate.last_error or "another scheduler has it"
        self._log.warn(f"lost the lease {lease}; waiting for it again", why=why, **sums)


async def reload(
    adopt: Callable[[SchedulerSettings], Awaitable[Changes]], reread: Callable[[], SchedulerSettings] | None, log: Log
) -> None:
    """Read the configuration again and log the changes; an invalid one changes nothing."""
    if reread is None:
        log.warn("SIGHUP: there is no configuration file")
        return
    try:
        new = reread()
        changes = await adopt(new)
    except HostlerError as error:
        log.warn("SIGHUP: nothing changed: the file is invalid", why=error.message, hint=error.hint or "none")
        return
    except Exception as error:  # whatever is wrong with the file, scheduling continues
        log.warn("SIGHUP: nothing changed: the file cannot be read", why=f"{type(error).__name__}: {error}")
        return
    for line in changes.at_once:
        log.info(f"SIGHUP: {line}")
    for line in changes.later:
        log.warn(f"SIGHUP: ignored until a restart: {line}")
    for line in new.notes:
        log.warn(f"SIGHUP: {line}")
    if not changes.at_once and not changes.later:
        log.info("SIGHUP: configuration read: no changes")


class Complaints:
    """Checks periodically for problems of the parts of a scheduler."""

    def __init__(self, scheduler: Scheduler, log: Log, clock: Clock) -> None:
        self._scheduler = scheduler
        self._log = log
        self._clock = clock
        self._before: set[str] = set()
        self._said: dict[str, int] = {}  # when each was last logged
        self._refused = 0
        self._odd: dict[str, str] = {}  # objects that are left out, and why

    async def watch(self) -> None:
        """Check forever; cancel it to end."""
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()

    def look(self) -> None:
        """Check once."""
        now, current = self._clock.now(), self._current()
        # A problem that is seen twice lasts; a connection that broke once is not reported.
        lasting = [why for why in current if why in self._before]
        due = [why for why in lasting if now - self._said.get(why, now - _AGAIN_NS) >= _AGAIN_NS]
        for why in due[:_MOST]:
            self._log.warn(current[why])
            self._said[why] = now
        self._before = set(current)
        if self._said and not current:
            self._said.clear()
            has_lease = self._scheduler.settings.election.is_on
            self._log.info(f"{'lists, watches and the lease' if has_lease else 'lists and watches'} work again")
        self._look_at_writes()
        self._look_at_objects()

    def _current(self) -> dict[str, str]:
        """Return the present problems, each reason with its text."""
        lease = self._scheduler.mandate.last_error
        found = {lease: f"{lease}; trying again"} if lease else {}
        failing: dict[str, list[str]] = {}
        for reflector in self._scheduler.reflectors.values():
            if reflector.last_error:
                failing.setdefault(reflector.last_error, []).append(reflector.resource.plural)
        for why, names in failing.items():
            what = names[-1] if len(names) == 1 else f"{names[-1]} and {len(names) - 1} more resources"
            found[why] = f"cannot list or watch {what}: {why}; trying again"
        return found

    def _look_at_writes(self) -> None:
        counts = self._scheduler.write_queue.counts
        if counts.refused >= max(1, 2 * self._refused):  # at every doubling: each write may be rejected
            self._refused = counts.refused
            self._log.warn(f"{counts.refused} conditions or events were rejected, the last one: {counts.last_refusal}")

    def _look_at_objects(self) -> None:
        """Name nodes and others that are left out; pods have conditions, and any user can create many."""
        odd = {place: why for place, why in self._scheduler.cluster.problems().items() if not place.startswith("pod ")}
        new = [f"{place}: {why}" for place, why in odd.items() if self._odd.get(place) != why]
        for text in new[:_MOST]:
            self._log.warn(text)
        if len(new) > _MOST:
            self._log.warn(f"and {len(new) - _MOST} more invalid objects")
        self._odd = odd
