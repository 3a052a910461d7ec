"""What the log says of a scheduler as a whole: how it starts, leads, rereads its file and ends. Used by ``main``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler._version import __version__
from hostler.errors import HostlerError
from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.scheduler.changes import Changes
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.settings import SchedulerSettings
from hostler.telemetry.log import Log

__all__ = ["Telling", "reload", "tell_start"]


def tell_start(log: Log, settings: SchedulerSettings, config: str = "") -> None:
    """Say what is about to run, so that a log tells by itself what it is the log of; ``config``: by which file."""
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
    """Say which policies give a node to one pod only: all, none, or some by name."""
    found = [policy.name for policy in settings.policies if policy.one_guest_per_host]
    if len(found) == len(settings.policies):
        return "yes"
    return ",".join(found) or "no"


class Telling:
    """Tells what becomes of one scheduler, and lets its parts tell what they do."""

    def __init__(self, scheduler: Scheduler, log: Log, clock: Clock) -> None:
        self._scheduler = scheduler
        self._log = log
        self._clock = clock
        self._began = self._led = clock.now()
        scheduler.on_leading = self._leading
        scheduler.loop.log = scheduler.binder.log = scheduler.hands.evictor.log = log
        scheduler.breaker.on_open = lambda why: log.warn("the API server counts as away: few calls are made", why=why)
        self._go_on = scheduler.breaker.on_close
        scheduler.breaker.on_close = self._closed

    def _leading(self) -> None:
        self._led = self._clock.now()
        self._log.info("leading, listing the cluster", identity=self._scheduler.identity)

    def _closed(self) -> None:
        self._log.info("the API server is back")
        self._go_on()

    def synced(self) -> None:
        """Say that everything was listed, and how much it is."""
        pods = self._scheduler.world.pods.values()
        self._log.info(
            "scheduling",
            nodes=len(self._scheduler.world.hosts),
            pods=len(pods),
            waiting=sum(pod.is_ours and not pod.node for pod in pods),
            seconds=self._since(self._led),
        )

    def ended(self, ending: Ending) -> None:
        """Say how it ended, and what was done."""
        parts = self._scheduler
        sums = {
            "bound": parts.binder.counts.bound,
            "binds_failed": parts.binder.counts.refused,
            "evicted": parts.hands.evictor.counts.evicted,
            "written": parts.trail.counts.written,
            "not_written": parts.trail.counts.refused,
            "seconds": self._since(self._began),
        }
        if ending == "stopped":
            self._log.info("stopped", **sums)
            return
        lease = f"{parts.settings.election.namespace}/{parts.settings.election.name}"
        why = parts.mandate.last_error or "another scheduler has it"
        self._log.warn(f"lost the lease {lease}; waiting for it again", why=why, **sums)

    def _since(self, start: int) -> float:
        return (self._clock.now() - start) / NANOSECONDS


async def reload(
    adopt: Callable[[SchedulerSettings], Awaitable[Changes]], reread: Callable[[], SchedulerSettings] | None, log: Log
) -> None:
    """Read the configuration again, and say what it changed; one that is wrong changes nothing."""
    if reread is None:
        log.warn("SIGHUP: there is no configuration file to read again")
        return
    try:
        new = reread()
        changes = await adopt(new)
    except HostlerError as error:
        log.warn("SIGHUP: nothing was changed: the file is refused", why=error.message, hint=error.hint or "none")
        return
    except Exception as error:  # whatever is wrong with a file, pods are placed as before
        log.warn("SIGHUP: nothing was changed: the file cannot be read", why=f"{type(error).__name__}: {error}")
        return
    for line in changes.at_once:
        log.info(f"SIGHUP: {line}")
    for line in changes.later:
        log.warn(f"SIGHUP: not taken over, that needs a new start: {line}")
    for line in new.notes:
        log.warn(f"SIGHUP: {line}")
    if not changes.at_once and not changes.later:
        log.info("SIGHUP: the configuration was read again: nothing changed")
