"""Runs the control plane in an event loop until a signal ends it; used by ``serve`` and ``dev up``."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from hostler.cli.terminal import note
from hostler.config import KernelCache, prepare_kernel_cache
from hostler.config.folders import state_folder
from hostler.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from hostler.control.serving import Serving, Tls
    from hostler.control.settings import ControlSettings
    from hostler.telemetry.log import Log

__all__ = ["COMPILING", "Options", "check_secret_file", "run_service", "settings_of", "write_secret"]

COMPILING = "compiling kernels (once, this may take a minute or two) …"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said to ``hostler serve``."""

    database_url: str
    listen: str
    names: tuple[str, ...]
    strategy: str
    tls_cert: Path | None
    tls_key: Path | None
    insecure: bool
    admin_key_file: Path | None
    heartbeat_s: float
    silent_after_s: float
    keep_events_s: float
    keep_operations_s: float
    keep_idempotency_keys_s: float
    fence_command: str
    no_dashboard: bool
    no_rate_limits: bool
    read_limit: str
    change_limit: str
    project_read_limit: str
    project_change_limit: str
    failure_limit: str
    streams: int
    streams_per_key: int
    vms_per_project: int
    head_s: float
    read_s: float
    log_format: Literal["text", "json"]


def run_service(environment: Mapping[str, str], options: Options) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends the process at once."""
    cache = prepare_kernel_cache("control")  # before anything imports the engine
    import uvloop

    from hostler.control.serving import serve
    from hostler.control.warming import leave
    from hostler.telemetry.log import Log

    log = Log(lambda line: note(line, label=""), form=options.log_format)
    how = _how(environment, options, cache, log)
    if cache.note:
        log.warn(cache.note)
    if not cache.is_warm:
        log.info(COMPILING)

    async def live() -> None:
        stopping = asyncio.Event()
        _on_signals(stopping, log.info)
        await serve(how, stopping)
        log.info("stopped")

    uvloop.run(live())
    leave()


def _how(environment: Mapping[str, str], options: Options, cache: KernelCache, log: Log) -> Serving:
    """Return how to serve; InputError."""
    from hostler.cli.control.serve_limits import read_limits
    from hostler.control.access.limits import OFF
    from hostler.control.serving import Serving

    if options.admin_key_file is not None:
        check_secret_file(options.admin_key_file)
    settings, tls = settings_of(environment, options), _tls(options)
    rates = read_limits(
        reads=options.read_limit,
        changes=options.change_limit,
        project_reads=options.project_read_limit,
        project_changes=options.project_change_limit,
        failures=options.failure_limit,
    )

    def on_admin_key(secret: str) -> None:
        if options.admin_key_file is not None:
            write_secret(options.admin_key_file, secret)
            log.info(f"the first administrator's key is in {options.admin_key_file}")
        else:
            note(f"the first administrator's key, shown this once: {secret}", label="")

    def on_ready(url: str) -> None:
        cache.mark_complete()
        log.info(f"serving on {url}")

    return Serving(
        settings=settings,
        database_url=options.database_url,
        state=state_folder(),
        tls=tls,
        is_insecure=options.insecure,
        is_compiled=cache.is_warm,
        limits=OFF if options.no_rate_limits else rates,
        mount=_no_pages if options.no_dashboard else _pages,
        on_admin_key=on_admin_key,
        on_ready=on_ready,
        tell=log.info,
        warn=log.warn,
    )


def settings_of(environment: Mapping[str, str], options: Options) -> ControlSettings:
    """Return what can be set about the service; InputError."""
    from hostler.control.access.listening import allowed_names, parse_listen
    from hostler.control.settings import ControlSettings, check_strategy, default_strategy

    allowed_names(parse_listen(options.listen), options.names)  # before a database and a key are made
    return ControlSettings(
        strategy=check_strategy(options.strategy) if options.strategy else default_strategy(environment),
        listen=options.listen,
        names=options.names,
        heartbeat_s=options.heartbeat_s,
        silent_after_s=options.silent_after_s,
        stop_after_s=0.8 * options.silent_after_s,
        keep_events_s=options.keep_events_s,
        keep_operations_s=options.keep_operations_s,
        keep_idempotency_s=options.keep_idempotency_keys_s,
        fence_command=tuple(shlex.split(options.fence_command)),
        streams=options.streams,
        vms_each=options.vms_per_project,
        streams_each=options.streams_per_key,
        head_s=options.head_s,
        read_s=options.read_s,
    )


def _tls(options: Options) -> Tls | None:
    from hostler.control.serving import Tls, check_files

    if (options.tls_cert is None) != (options.tls_key is None):
        raise InputError("a certificate needs its key, and a key its certificate", hint="give --tls-cert and --tls-key")
    if options.tls_cert is None or options.tls_key is None:
        return None
    tls = Tls(options.tls_cert, options.tls_key)
    check_files(tls)
    return tls


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a file that only its owner reads; InputError, UnavailableError."""
    check_secret_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    except OSError as error:
        raise UnavailableError(f"{path}: {error.strerror}", hint="name a file that can be written") from error
    with os.fdopen(descriptor, "w") as file:
        _check_regular(path, os.fstat(descriptor).st_mode)  # what was opened, whatever stood there a moment before
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        file.write(f"{secret}\n")


def check_secret_file(path: Path) -> None:
    """Refuse a place where a secret cannot be kept, before there is one; a file that is not there yet is none."""
    with suppress(OSError):  # writing will say what is wrong with it
        _check_regular(path, path.stat().st_mode)


def _check_regular(path: Path, mode: int) -> None:
    """Refuse a device, a pipe or a folder: its mode would be changed for everybody who uses it."""
    if not stat.S_ISREG(mode):
        hint = "name a file: it is made, and only its owner can read it"
        raise InputError(f"{path} is no regular file, so no secret is written there", hint=hint)


def _pages(app: object, context: object) -> None:
    from hostler.web.pages import mount

    mount(app, context)  # type: ignore[arg-type]


def _no_pages(app: object, context: object) -> None:
    """Add none."""


def _on_signals(stopping: asyncio.Event, say: object) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        if stopping.is_set():
            os._exit(130)
        say(f"{name}: finishing what is under way")  # type: ignore[operator]
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
