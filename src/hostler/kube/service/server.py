"""The HTTP service of a scheduler and of its successors in the same process.

``MissingEvents`` counts pods of ours that were bound recently and have no Scheduled event. Events are written after
binds, so those of the last moments before a crash may be missing. They are not written afterwards, but counted once,
when a scheduler has started.

The certificate of the pages is renewed while they are served: to rotate it, replace its two files. New connections get
the new certificate; open ones continue.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from hostler.errors import InputError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.credentials import ClientIdentity
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import Resource
from hostler.kube.api.tls import load_certificate
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.health import HealthMonitor
from hostler.kube.service.pages import SchedulerPages
from hostler.kube.service.questions import Questions
from hostler.kube.service.reviews import Reviews
from hostler.manifests.objects.metadata import Metadata, ObjectStruct
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.engine_thread import Executor
from hostler.runtime.listener import Listener, ListenerLimits
from hostler.runtime.tasks import end_tasks
from hostler.runtime.transport import TransportError

__all__ = ["SchedulerService", "ServedCertificate", "check_listen", "is_reachable", "open_service", "serve"]

_EXAMPLE = "127.0.0.1:10359"
_USUAL = ListenerLimits()
_KEPT_NS = 50 * 60 * NANOSECONDS  # API servers keep events for an hour: older pods prove nothing
_EVERY_S = 1.0
_AGAIN_S = 30.0


def check_listen(listen: str, *, has_tls: bool, is_insecure: bool) -> tuple[str, int]:
    """Parse an address. One that other machines can reach needs TLS, because tokens are sent to it."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{listen[:60]!r} is not a valid listen address", hint=f"write it as {_EXAMPLE}, or none")
    if not (has_tls or is_insecure) and is_reachable(listen):
        raise InputError(
            f"{listen} is reachable from other machines, and tokens would be sent in clear text",
            hint="give a certificate and its key, listen on 127.0.0.1, or say --insecure-listen",
        )
    return host, int(port)


def is_reachable(listen: str) -> bool:
    """Return whether other machines can reach an address."""
    host = listen.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


class SchedulerService:
    """A listening address with the pages of the current scheduler."""

    def __init__(
        self,
        client: KubeClient,
        *,
        executor: Executor,
        clock: Clock,
        with_shared_metrics: bool = False,
        limits: ListenerLimits = _USUAL,
    ) -> None:
        self.address = ""
        self._client = client
        self._executor = executor
        self._clock = clock
        self._with_shared_metrics = with_shared_metrics
        self._limits = limits
        self._shown: _ShownPages | None = None
        self._door: Listener | None = None
        self._listening: asyncio.Server | None = None

    async def show(self, scheduler: Scheduler) -> None:
        """Show this scheduler from now on; waiting clients have to reconnect."""
        before = self._shown
        if before is not None and before.scheduler is scheduler:
            return
        self._shown = _ShownPages(
            scheduler, self._client, self._executor, self._clock, self._limits, with_shared=self._with_shared_metrics
        )
        server = await self._shown.start()
        if self._door is None:
            self._door = Listener(server, self._limits)
        else:
            self._door.lead_to(server)
        if before is not None:
            await before.close()

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Accept connections; OSError if the address is not available."""
        assert self._door is not None
        self._listening = await self._door.start(host, port, context)
        taken = self._listening.sockets[0].getsockname()
        host = f"[{taken[0]}]" if ":" in taken[0] else taken[0]
        self.address = f"{'https' if context else 'http'}://{host}:{taken[1]}"

    async def close(self) -> None:
        """Accept no more connections, and end the open ones."""
        if self._listening is not None:
            self._listening.close()
        if self._shown is not None:
            await self._shown.close()


class _ShownPages:
    """The pages of one scheduler and their background tasks."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: KubeClient,
        executor: Executor,
        clock: Clock,
        limits: ListenerLimits,
        *,
        with_shared: bool,
    ) -> None:
        self.scheduler = scheduler
        self._health = HealthMonitor(scheduler, executor, clock)
        self._missing = MissingEvents(scheduler, client, clock)
        pages = SchedulerPages(
            scheduler,
            Questions(scheduler, executor, clock),
            self._health,
            clock,
            missing_events=lambda: self._missing.count,
            with_shared_metrics=with_shared,
            body_s=limits.body_s,
        )
        self._runner = web.AppRunner(pages.app(Reviews(client, clock)), handle_signals=False, shutdown_timeout=1.0)
        self._tasks: list[asyncio.Future[None]] = []

    async def start(self) -> web.Server:
        await self._runner.setup()
        assert self._runner.server is not None
        self._tasks = [asyncio.ensure_future(self._health.watch()), asyncio.ensure_future(self._missing.find())]
        return self._runner.server

    async def close(self) -> None:
        await end_tasks(self._tasks)
        await self._runner.cleanup()


@asynccontextmanager
async def open_service(
    scheduler: Scheduler,
    client: KubeClient,
    listen: str,
    *,
    executor: Executor,
    clock: Clock,
    tls: tuple[Path, Path] | None = None,
    is_insecure: bool = False,
    with_shared_metrics: bool = False,
    limits: ListenerLimits = _USUAL,
    reread_s: float = 10.0,
    say: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[SchedulerService]:
    """Serve the pages of a scheduler, and of its successors, while the context is open.

    ``tls``: files of a certificate and its key, checked every ``reread_s``. ``with_shared_metrics``: kube-scheduler's
    metrics under its own prefix too. Port 0 takes any free port.
    """
    host, port = check_listen(listen, has_tls=tls is not None, is_insecure=is_insecure)
    shown = ServedCertificate(*tls, say) if tls is not None else None
    service = SchedulerService(
        client, executor=executor, clock=clock, with_shared_metrics=with_shared_metrics, limits=limits
    )
    tasks = [asyncio.ensure_future(shown.watch(reread_s))] if shown is not None else []
    try:
        await service.show(scheduler)
        try:
            await service.listen(host, port, shown.context if shown is not None else None)
        except OSError as error:
            raise InputError(
                f"cannot listen on {listen}: {error.strerror}", hint="name another address by --listen, or 'none'"
            ) from error
        say(f"probes, metrics and explanations at {service.address}")
        yield service
    finally:
        await end_tasks(tasks)
        await service.close()


@asynccontextmanager
async def serve(scheduler: Scheduler, client: KubeClient, listen: str, **options: object) -> AsyncIterator[str]:
    """Serve the pages of one scheduler without successors, like ``open_service``; return the address."""
    async with open_service(scheduler, client, listen, **options) as service:  # type: ignore[arg-type]
        yield service.address


class _About(ObjectStruct, frozen=True):
    uid: str = ""


class _Event(ObjectStruct, frozen=True):
    metadata: Metadata = Metadata()
    reason: str = ""
    regarding: _About = _About()


_EVENTS = Resource(struct=_Event, kind="Event", plural="events", group="events.k8s.io")


class MissingEvents:
    """Counts once; ``count`` is None until then, and if events may not be listed."""

    def __init__(self, scheduler: Scheduler, client: KubeClient, clock: Clock) -> None:
        self.count: int | None = None
        self._scheduler = scheduler
        self._client = client
        self._clock = clock

    async def find(self) -> None:
        """Wait until the cluster is listed and our own events are written, then look for pods without one."""
        while not self._scheduler.is_synced:
            await asyncio.sleep(_EVERY_S)
        bound = self._bound_lately()
        while bound and self._scheduler.write_queue.backlog:
            await asyncio.sleep(_EVERY_S)
        while bound and self.count is None:
            try:
                listing = await self._client.list(_EVENTS, fields="reason=Scheduled")
            except ApiError as error:
                if not error.is_worth_retrying:
                    return
                await asyncio.sleep(_AGAIN_S)
            except TransportError:
                await asyncio.sleep(_AGAIN_S)
            else:
                told = {item.regarding.uid for item in listing.items if not isinstance(item, UndecodableObject)}
                self.count = len(bound - told)
        self.count = self.count or 0

    def _bound_lately(self) -> set[str]:
        """Return our running pods that are too young for their events to have expired."""
        oldest = self._clock.now() - _KEPT_NS
        pods = self._scheduler.cluster.pods.values()
        return {pod.uid for pod in pods if pod.is_ours and pod.node and not pod.has_ended and pod.created > oldest}


class ServedCertificate:
    """A server TLS context from two files; InputError if they cannot be used at the start."""

    def __init__(self, certificate: Path, key: Path, say: Callable[[str], None] = lambda text: None) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._certificate = certificate
        self._key = key
        self._say = say
        self._complaint = ""
        self._shown = ClientIdentity()
        self._take()

    async def watch(self, every_s: float) -> None:
        """Check the files now and then; cancel it to end."""
        while True:
            await asyncio.sleep(every_s)
            self.look()

    def look(self) -> None:
        """Load the files if they changed; an incomplete or invalid pair is ignored until it is valid."""
        try:
            if self._take():
                self._say(f"{self._certificate}: the new certificate is in use")
            self._complaint = ""
        except InputError as error:
            if error.message != self._complaint:
                self._say(f"{error.message}; the old one stays in use")
            self._complaint = error.message

    def _take(self) -> bool:
        """Load the files; return whether they are new."""
        try:
            found = ClientIdentity(certificate=self._certificate.read_bytes(), key=self._key.read_bytes())
            if found.is_same(self._shown):
                return False
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), found)  # the context in use must not be damaged
            load_certificate(self.context, found)
        except InputError as error:
            problem = error.message
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
        else:
            self._shown = found
            return True
        where = f"the certificate {self._certificate} or its key {self._key}"
        raise InputError(f"{where} cannot be used: {problem}", hint="both must be PEM and match")
