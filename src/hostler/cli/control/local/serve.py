"""``hostler serve``: one process of the VM control plane, from its options to its end by a signal.

The service is imported when the command runs, after the folder of compiled kernels is prepared.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import msgspec

from hostler.cli.control.options import database_option
from hostler.cli.options import FILE, NumberRange, examples
from hostler.cli.output.terminal import note
from hostler.config import KernelCache, prepare_kernel_cache
from hostler.config.folders import state_folder
from hostler.config.secret_files import check_secret_file, write_secret
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.access.limits import Rate, RateLimits
    from hostler.control.service import ServiceOptions, Tls
    from hostler.control.settings import ControlSettings
    from hostler.model import Policy
    from hostler.telemetry.log import Log

__all__ = ["COMPILING", "ServeOptions", "read_limits", "run_service", "serve", "settings_of"]

F = TypeVar("F", bound=Callable[..., Any])

_LIMIT_OPTIONS = (
    click.option(
        "--read-limit", metavar="RATE", default="3000/60", show_default=True,
        help="How often one key may read: calls per seconds, or off.",
    ),
    click.option(
        "--change-limit", metavar="RATE", default="300/60", show_default=True,
        help="How often one key may change something, or ask what-ifs.",
    ),
    click.option(
        "--project-read-limit", metavar="RATE", default="6000/60", show_default=True,
        help="How often all keys of one project together may read.",
    ),
    click.option(
        "--project-change-limit", metavar="RATE", default="600/60", show_default=True,
        help="How often all keys of one project together may change something; above 4 KiB, one counts as several.",
    ),
    click.option(
        "--failure-limit", metavar="RATE", default="10/60", show_default=True,
        help="How often one address may fail to authenticate before it is locked out.",
    ),
    click.option("--no-rate-limits", is_flag=True, help="None of these five: for load tests on loopback."),
    click.option(
        "--vms-per-project", type=click.IntRange(1, 10_000_000), default=10_000, show_default=True,
        help="How many VMs one project may have, those that wait for a place among them.",
    ),
    click.option(
        "--streams", type=click.IntRange(1, 100_000), default=1000, show_default=True,
        help="How many streams of events all keys together may have open.",
    ),
    click.option(
        "--streams-per-key", type=click.IntRange(1, 100_000), default=32, show_default=True,
        help="How many streams of events one key may have open.",
    ),
    click.option(
        "--head-timeout", "head_s", type=NumberRange(0.5, 3600), default=30.0, show_default=True,
        help="Seconds after which a connection is closed that has sent no whole head of a request.",
    ),
    click.option(
        "--body-timeout", "read_s", type=NumberRange(0.5, 3600), default=30.0, show_default=True,
        help="Seconds that the body of a request may take.",
    ),
)  # fmt: skip


def limit_options(command: F) -> F:
    """Add the options for rate limits."""
    for option in reversed(_LIMIT_OPTIONS):
        command = option(command)
    return command


def read_limits(*, reads: str, changes: str, project_reads: str, project_changes: str, failures: str) -> RateLimits:
    """Return the rates of the options; InputError."""
    from hostler.control.access.limits import RateLimits, parse_rate
    from hostler.errors import InputError

    def rate(option: str, text: str) -> Rate | None:
        try:
            return parse_rate(text)
        except InputError as error:
            raise InputError(f"{option}: {error.message}", hint=error.hint) from None

    return RateLimits(
        reads=rate("--read-limit", reads),
        changes=rate("--change-limit", changes),
        project_reads=rate("--project-read-limit", project_reads),
        project_changes=rate("--project-change-limit", project_changes),
        failures=rate("--failure-limit", failures),
    )


COMPILING = "compiling kernels (once, this may take a minute or two) …"


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``hostler serve``."""

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
    stop_victims: bool
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
    log_decisions: int
    config: str
    plugins: tuple[Path, ...]
    plugin_deadline_s: float


def run_service(environment: Mapping[str, str], options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    from hostler.cli.control.connection import require_extra

    cache = prepare_kernel_cache("control")  # before anything imports the engine
    with require_extra("server", "serve"):
        import uvloop

        from hostler.control.kernel_warmup import exit_if_compiling
        from hostler.control.service import serve
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

    try:
        uvloop.run(live())
    finally:
        log.finish()
    exit_if_compiling()


def _how(environment: Mapping[str, str], options: ServeOptions, cache: KernelCache, log: Log) -> ServiceOptions:
    """Return the service's options; InputError."""
    from hostler.control.access.limits import OFF
    from hostler.control.books.decision_log import DecisionLog
    from hostler.control.own_plugins import check_own_policies
    from hostler.control.service import ServiceOptions

    if options.admin_key_file is not None:
        check_secret_file(options.admin_key_file)
    settings, tls = settings_of(environment, options), _tls(options)
    check_own_policies(settings)
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
            note(f"the first administrator's key, shown only once: {secret}", label="")

    def on_ready(url: str) -> None:
        cache.mark_complete()
        log.info(f"serving on {url}")

    return ServiceOptions(
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
        decisions=DecisionLog(log, options.log_decisions),
    )


def settings_of(environment: Mapping[str, str], options: ServeOptions) -> ControlSettings:
    """Return the service's settings; InputError."""
    from hostler.control.access.listen_addresses import allowed_names, parse_listen
    from hostler.control.settings import ControlSettings, check_strategy, default_strategy

    allowed_names(parse_listen(options.listen), options.names)  # before a database and a key are made
    own, default = _own_policies(options)
    known = ControlSettings(own_policies=own).strategies
    environment = {"SCHEDULING_STRATEGY": default, **environment} if default else environment
    return ControlSettings(
        strategy=check_strategy(options.strategy, known) if options.strategy else default_strategy(environment, known),
        own_policies=own,
        plugin_files=tuple(str(file.absolute()) for file in options.plugins),
        plugin_deadline_s=options.plugin_deadline_s,
        listen=options.listen,
        names=options.names,
        heartbeat_s=options.heartbeat_s,
        silent_after_s=options.silent_after_s,
        stop_after_s=0.8 * options.silent_after_s,
        keep_events_s=options.keep_events_s,
        keep_operations_s=options.keep_operations_s,
        keep_idempotency_s=options.keep_idempotency_keys_s,
        fence_command=tuple(shlex.split(options.fence_command)),
        move_victims=not options.stop_victims,
        streams=options.streams,
        vms_each=options.vms_per_project,
        streams_each=options.streams_per_key,
        head_s=options.head_s,
        read_s=options.read_s,
    )


def _own_policies(options: ServeOptions) -> tuple[tuple[Policy, ...], str]:
    """Return the policies of --config and --plugin, and the default that the file names; InputError."""
    from hostler.config import read_documents
    from hostler.config.settings import read_settings
    from hostler.engine import BUILT_IN
    from hostler.model import QueueRules
    from hostler.runtime.plugin_files import load_plugin_files

    found = dict(load_plugin_files(options.plugins).policies)
    if not options.config:
        return tuple(found.values()), ""
    documents = read_documents([options.config])
    if len(documents) != 1:
        raise InputError(f"{options.config}: it has {len(documents)} documents", hint="a configuration has one")
    configured = read_settings(documents[0], {**BUILT_IN, **found})
    if configured.queue != QueueRules():
        raise InputError(
            f"{options.config}: 'hostler serve' has queue rules of its own", hint="leave 'queue' out of the file"
        )
    found |= {one.name: one for one in configured.policies}
    named = any(one.name == "default_policy" for one in configured.shown)
    return tuple(found.values()), configured.default_policy if named else ""


def _tls(options: ServeOptions) -> Tls | None:
    from hostler.control.service import Tls, check_files

    if (options.tls_cert is None) != (options.tls_key is None):
        raise InputError("a certificate needs its key, and a key its certificate", hint="give --tls-cert and --tls-key")
    if options.tls_cert is None or options.tls_key is None:
        return None
    tls = Tls(options.tls_cert, options.tls_key)
    check_files(tls)
    return tls


def _pages(app: object, context: object) -> None:
    from hostler.web.routes import mount

    mount(app, context)  # type: ignore[arg-type]


def _no_pages(app: object, context: object) -> None:
    """Add no pages."""


def _on_signals(stopping: asyncio.Event, say: object) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        if stopping.is_set():
            os._exit(130)
        say(f"{name}: finishing open requests")  # type: ignore[operator]
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)


_SHORTEST_S = 60  # less would forget what a client is still waiting for


def _retention_option(option: str, default: str, text: str) -> Callable[[F], F]:
    """Return an option for a retention time."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
        from hostler.cli.control.options import seconds_of

        seconds = seconds_of(option, value)
        if seconds < _SHORTEST_S:
            raise InputError(f"{option}: {value} is too short", hint="keep it for 1m at least")
        return float(seconds)

    name = f"{option.removeprefix('--').replace('-', '_')}_s"
    return click.option(option, name, metavar="DURATION", default=default, show_default=True, callback=read, help=text)


@click.command(
    epilog=examples(
        "hostler serve",
        "hostler serve --listen 127.0.0.1:9000 --admin-key-file admin.key",
        "hostler serve --database-url postgresql://hostler@db/hostler --listen 0.0.0.0:8470 \\\n"
        "      --tls-cert server.pem --tls-key server-key.pem --name hostler.example.com",
    ),
    short_help="Serve the VM control plane: REST, dashboard, agents.",
)
@database_option(
    "SQLite or PostgreSQL.  [default: the file ~/.local/state/hostler/control.db, or below XDG_STATE_HOME]"
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1:8470",
    show_default=True,
    help="The listen address: HOST:PORT. PORT alone means 127.0.0.1, HOST alone means port 8470.",
)
@click.option("--name", "names", multiple=True, help="A host name of the service; may be repeated.")
@click.option("--strategy", default="", help="The strategy of VMs that name none; overrides SCHEDULING_STRATEGY.")
@click.option(
    "--config", metavar="FILE", type=FILE, default="", help="A file of kind Config with strategies of your own."
)
@click.option(
    "--plugin",
    "plugins",
    metavar="FILE",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A Python file with plugins and policies of your own; may be repeated.",
)
@click.option(
    "--plugin-deadline",
    "plugin_deadline_s",
    type=NumberRange(0.1, 60),
    default=5.0,
    show_default=True,
    help="Seconds that an answer of a plugin may take before its strategies are out of service.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="The certificate, PEM; needed beyond loopback.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM.")
@click.option(
    "--insecure", is_flag=True, help="Listen beyond loopback without TLS. Others can then read keys on the network."
)
@click.option(
    "--admin-key-file",
    type=click.Path(path_type=Path),
    help="Write the first administrator's key here, not to the log.",
)
@click.option(
    "--heartbeat",
    "heartbeat_s",
    type=NumberRange(0.1, 300),
    default=5.0,
    show_default=True,
    help="Seconds between reports of agents.",
)
@click.option(
    "--silent-after", "silent_after_s", type=NumberRange(0.5, 3600), default=15.0, show_default=True,
    help="Seconds until the VMs of a silent host are unknown.",
)  # fmt: skip
@_retention_option("--keep-events", "168h", "How long events and deleted VMs are kept.")
@_retention_option("--keep-operations", "168h", "How long finished operations are kept.")
@_retention_option("--keep-idempotency-keys", "24h", "How long a repeated request gets the first response.")
@click.option("--fence-command", default="", help="A program that proves a silent host dead; gets HOSTLER_HOST.")
@click.option("--stop-victims", is_flag=True, help="Stop VMs of lower priority that make room, instead of moving them.")
@click.option("--no-dashboard", is_flag=True, help="Serve REST only.")
@limit_options
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How log lines look."
)
@click.option(
    "--log-decisions", metavar="LINES", type=click.IntRange(0, 1_000_000), default=100, show_default=True,
    help="How many placed VMs are logged in ten seconds, and how many that are not placed; 0: none.",
)  # fmt: skip
def serve(**options: object) -> None:
    """Serve the VM control plane: users create VMs over REST, agents run them."""
    run_service(dict(os.environ), ServeOptions(**options))  # type: ignore[arg-type]
