"""One process of the control plane: database, engine, fleet and REST, until it is stopped.

Until everything is read only probes are answered: /livez, and /readyz with the reason. A stop ends waiting requests,
lets others finish, releases the lease and closes the database, in this order. Used by the commands ``serve`` and
``dev up``.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import time
from collections.abc import Callable, Set
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec
from starlette.applications import Starlette

from hostler.control.access import Authenticator, Limiter
from hostler.control.access.limits import RateLimits
from hostler.control.access.listen_addresses import Address, allowed_names, check_listening, parse_listen
from hostler.control.access.sessions import read_signing_secret, signing_secret
from hostler.control.api.app import make_app
from hostler.control.api.http_server import Tls, bind, check_files, make_server, url_of
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.question_limits import EXPLAINED, QuestionLimits
from hostler.control.api.requests.rejections import RemoteLog
from hostler.control.api.startup import StartupApp, log_slow_start
from hostler.control.books.answers.process import ProcessAnswerer
from hostler.control.books.books import Books
from hostler.control.books.decision_log import NO_DECISION_LOG, DecisionLog
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.duties import Duties
from hostler.control.kernel_warmup import tune_garbage_collector, warm_up, warm_up_unless_stopped
from hostler.control.services import first_start
from hostler.control.services.tenancy.keys import note_uses
from hostler.control.settings import ControlSettings
from hostler.control.store import Database, open_database
from hostler.control.store.history import lease
from hostler.errors import HostlerError

__all__ = ["ServiceOptions", "Tls", "check_files", "refresh_signing_secret", "serve"]

_NOTE_USES_S = 30.0
_LOAD_AFTER_S = 2.0
_TURN_S = 0.0005
_REREAD_SECRET_S = 5.0  # less than the 10 s within which what was revoked counts everywhere
_OPENING = "the database is being opened"
_COMPILING = "kernels are being compiled once, which may take a minute or two"
_READING = "the log is being read, and missing kernels are being compiled"


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one process. ``mount`` adds pages to the application; ``on_admin_key`` gets the very first key.

    ``state`` is the folder that keeps what this machine knows of the log across restarts; without one nothing is kept.

    ``is_compiled``: kernels only have to be loaded. The kernels for explanations are then loaded beside the first
    answers. Otherwise only probes are answered until all kernels are compiled.
    """

    settings: ControlSettings
    database_url: str = ""
    state: Path | None = None
    tls: Tls | None = None
    is_insecure: bool = False
    is_compiled: bool = False
    limits: RateLimits = RateLimits()
    mount: Callable[[Starlette, ServiceContext], None] = lambda app, context: None
    on_admin_key: Callable[[str], None] = lambda secret: None
    on_ready: Callable[[str], None] = lambda url: None
    tell: Callable[[str], None] = lambda line: None
    warn: Callable[[str], None] | None = None  # what an operator must look at; as ``tell`` if nothing is given
    decisions: DecisionLog = NO_DECISION_LOG


async def serve(how: ServiceOptions, stopping: asyncio.Event) -> None:
    """Serve until ``stopping`` is set.

    A stop takes effect at once even while kernels are compiled. Call ``kernel_warmup.exit_if_compiling`` afterwards.
    """
    address = parse_listen(how.settings.listen)
    warning = check_listening(address, has_tls=how.tls is not None, is_insecure=how.is_insecure)
    if warning:
        how.tell(warning)
    sock = bind(address)
    url = url_of(address, sock, is_secure=how.tls is not None)
    async with AsyncExitStack() as opened:
        opened.callback(sock.close)
        front = _Front(how, sock)
        opened.push_async_callback(front.close)
        opened.callback(asyncio.ensure_future(log_slow_start(front.porch, how.tell)).cancel)
        database = await asyncio.to_thread(open_database, how.database_url, state=how.state, tell=how.tell)
        opened.push_async_callback(database.aclose)
        how.tell(f"database {database.name}")
        signing = await _first_start(database, how)
        if not database.is_shared:
            await database.write(lease.bury)  # one process per file, so the former leader is dead
        answerer = ProcessAnswerer(how.settings, how.warn or how.tell)
        books = Books(
            database, how.settings, answerer, address=url, tell=how.tell, warn=how.warn, decisions=how.decisions
        )
        opened.push_async_callback(books.close)
        if not how.is_compiled:
            front.porch.why = _COMPILING
            if not await warm_up_unless_stopped(stopping, how.settings):
                return
        front.porch.why = _READING
        await books.open()
        _take_short_turns()
        tune_garbage_collector()
        await _live(how, database, books, answerer, address, front, url, signing, stopping)
        database.history.check()  # who stopped it sees by the exit code that it did not serve to its end


class _Front:
    """The HTTP server, which runs from the beginning, and the application that it opens later."""

    def __init__(self, how: ServiceOptions, sock: socket.socket) -> None:
        self.porch = StartupApp(_OPENING)
        strangers = RemoteLog(how.tell, time.time_ns)  # noqa: TID251 - how often they are told of goes by wall time
        self._server = make_server(self.porch, how.tls, how.settings.head_s, strangers)
        self.serving = asyncio.ensure_future(self._server.serve(sockets=[sock]))

    async def close(self) -> None:
        """Let requests finish, and end."""
        self._server.should_exit = True
        await asyncio.gather(self.serving, return_exceptions=True)


async def _live(
    how: ServiceOptions,
    database: Database,
    books: Books,
    answerer: ProcessAnswerer,
    address: Address,
    front: _Front,
    url: str,
    signing: bytes,
    stopping: asyncio.Event,
) -> None:
    authenticator = Authenticator(database, limits=how.limits)
    fleet = AgentService(database, books, how.settings, authenticator=authenticator, tell=how.tell)
    context = ServiceContext(
        database=database,
        books=books,
        fleet=fleet,
        settings=how.settings,
        authenticator=authenticator,
        limiter=Limiter(how.limits),
        asking=QuestionLimits(None if how.limits.reads is None else EXPLAINED),
        host_names=allowed_names(address, how.settings.names),
        signing=signing,
        tell=how.tell,
    )
    app = make_app(context)
    how.mount(app, context)
    parts = {
        "the books": asyncio.ensure_future(books.run(stopping)),
        "the fleet": asyncio.ensure_future(fleet.run(stopping)),
        "the leader's duties": asyncio.ensure_future(Duties(fleet).run(stopping)),
        "uses of keys": asyncio.ensure_future(_note_uses(database, authenticator, stopping, how.tell)),
        "the secret of sessions": asyncio.ensure_future(refresh_signing_secret(context, stopping)),
        "the probe of writes": asyncio.ensure_future(context.writes.run(database, stopping, how.tell)),
        "refusals": asyncio.ensure_future(context.refusals.run(database, stopping, how.tell)),
    }
    ending = asyncio.ensure_future(stopping.wait())
    front.porch.open(app)
    how.on_ready(url)
    loading = asyncio.ensure_future(_load_rest(how, answerer, stopping))
    try:
        done, _ = await asyncio.wait({front.serving, ending, *parts.values()}, return_when=asyncio.FIRST_COMPLETED)
        _raise_if_dead(done, parts, stopping)
    finally:
        stopping.set()
        context.stopping.set()
        books.subscriptions.close()
        await front.close()
        await asyncio.gather(loading, *parts.values(), return_exceptions=True)
        ending.cancel()


def _take_short_turns() -> None:
    """Shorten the interpreter's switch interval for waiting threads.

    A request passes between the event loop and the database's thread several times. While a what-if and a decision
    compute, each passage waits for both of them, by default 5 ms each.
    """
    # Creates beside a loud neighbor, 200 hosts, two runs each in turn, with 0.5 ms and with Python's 5 ms: p50 24 and
    # 22 ms against 46 and 42 ms, p95 72 and 52 ms against 430 and 163 ms (docs/benchmarks.md, `loud neighbor`).
    sys.setswitchinterval(_TURN_S)


async def _load_rest(how: ServiceOptions, answerer: ProcessAnswerer, stopping: asyncio.Event) -> None:
    """Load what the first answers do not need: kernels, and the answer process."""
    if not await _stops_within(stopping, _LOAD_AFTER_S):
        await answerer.start()
        if how.is_compiled:
            await asyncio.to_thread(warm_up, how.settings)


async def _stops_within(stopping: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()


async def _note_uses(
    database: Database, authenticator: Authenticator, stopping: asyncio.Event, tell: Callable[[str], None]
) -> None:
    """Write the times of key uses now and then, and a last time at the end."""
    while not stopping.is_set():
        await _stops_within(stopping, _NOTE_USES_S)
        uses = authenticator.take_uses()
        if uses:
            try:
                await database.write(lambda connection, uses=uses: note_uses(connection, uses))  # type: ignore[misc]
            except HostlerError as error:
                tell(f"uses of keys are not written: {error.message}")


async def _first_start(database: Database, how: ServiceOptions) -> bytes:
    """Create what a new database needs; return the signing secret of sessions."""
    now_ns, random = time.time_ns(), secrets.token_bytes  # noqa: TID251 - keys bear wall times
    secret = await database.write(lambda connection: first_start.prepare(connection, now_ns, random))
    if secret is not None:
        how.on_admin_key(secret)
    return await database.write(lambda connection: signing_secret(connection, now_ns, random))


def _raise_if_dead(done: Set[object], parts: dict[str, asyncio.Task[None]], stopping: asyncio.Event) -> None:
    """Raise the error that ended a part: the service does not run without one of its parts."""
    for name, part in parts.items():
        if part in done and not stopping.is_set():
            with suppress(asyncio.CancelledError):
                error = part.exception()
                if isinstance(error, HostlerError):
                    raise error
                raise RuntimeError(f"{name} ended") from error


async def refresh_signing_secret(
    context: ServiceContext, stopping: asyncio.Event, *, every_s: float = _REREAD_SECRET_S
) -> None:
    """Reread the secret now and then until ``stopping`` is set. Skipped if the database is not shared."""
    if not context.database.is_shared:
        await stopping.wait()
    while not stopping.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await stopping.wait()
        try:
            context.signing = await context.database.read(read_signing_secret) or context.signing
        except HostlerError as error:
            context.tell(f"what sessions are signed with could not be read: {error.message}")
