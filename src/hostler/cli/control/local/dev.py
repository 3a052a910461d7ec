"""``hostler dev``: a control plane or a fleet of fake hosts on one machine, for trying things out.

``up`` runs the service and its agents in one event loop. Their modules are imported when a command runs.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from hostler.cli.control.connection import require_extra
from hostler.cli.control.local.agent_options import (
    check_host_name,
    fake_options,
    read_delays,
    read_faults,
    read_labels,
    read_size,
    server_options,
)
from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import FILE, NumberRange, examples, seed_option
from hostler.cli.output.terminal import note, progress, say
from hostler.config.secret_files import read_secret_lines, write_secret
from hostler.errors import InputError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.agent.connection.http import HttpTransport
    from hostler.agent.simulated_fleet import FleetPlan, SimulatedFleet, Tokens
    from hostler.telemetry.log import Log

__all__ = ["COMMANDS", "dev", "fleet", "up"]

_TELL_EVERY_S = 2.0
_BAR_EVERY_S = 0.2
_MOST_HOSTS = 20_000
_SPARE_FILES = 200


@click.command(
    epilog=examples(
        "hostler dev fleet --server http://127.0.0.1:8470 --key-file admin.key --hosts 20",
        "hostler dev fleet --server http://127.0.0.1:8470 --key-file - --hosts 1000 --size cpu=32,memory=128Gi,gpu=4",
        "hostler dev fleet --server http://127.0.0.1:8470 --token-file tokens --hosts 3 --fail-rate 0.1",
        "hostler dev fleet --server http://127.0.0.1:8470 --key-file admin.key --delay create=0.5 --fault start=0.1",
    ),
    short_help="Run the agents of many fake hosts in one process.",
)
@server_options()
@click.option(
    "--key-file",
    metavar="FILE",
    type=FILE,
    default="",
    help="An admin's API key, by which each host gets a join token; a file of mode 0600, or '-' for standard input.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=FILE,
    default="",
    help="Join tokens instead, one per line, in the order of the hosts.",
)
@click.option(
    "--hosts", metavar="N", type=click.IntRange(1, _MOST_HOSTS), default=20, show_default=True, help="How many hosts."
)
@click.option("--prefix", metavar="TEXT", default="host-", show_default=True, help="The prefix of host names.")
@click.option(
    "--size", metavar="AMOUNTS", default="", help="How large each host is.  [default: cpu=16,memory=64Gi,disk=1Ti]"
)
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of all hosts; may be repeated.")
@click.option("--storage", "storages", metavar="NAME", multiple=True, help="Storage that all hosts share.")
@click.option(
    "--fail-rate",
    metavar="SHARE",
    type=NumberRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="The share of actions that fail, between 0 and 1.",
)
@fake_options()
@seed_option()
@click.option(
    "--at-once",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="How many hosts may join at the same time.",
)
@click.option(
    "--state-dir",
    metavar="FOLDER",
    type=click.Path(path_type=Path, readable=False),
    default=None,
    help="Keep hosts and VMs here for the next fleet.  [default: they end with this process]",
)
def fleet(
    server: str,
    ca_file: Path | None,
    insecure: bool,
    key_file: str,
    token_file: str,
    hosts: int,
    prefix: str,
    size: str,
    labels: tuple[str, ...],
    storages: tuple[str, ...],
    fail_rate: float,
    delays: tuple[str, ...],
    faults: tuple[str, ...],
    seed: int,
    at_once: int,
    state_dir: Path | None,
) -> None:
    """Run the agents of many fake hosts in one process, until it is stopped.

    Each host joins the control plane like a real one; its VMs are only simulated. For demos, tests and measurements.
    """
    from hostler.cli.control.connection import require_extra

    with require_extra("agent", "dev fleet"):
        from hostler.agent.simulated_fleet import (
            FleetPlan,
            allow_open_files,
            fast_loop_factory,
            tokens_from_list,
            tokens_from_server,
        )
        from hostler.agent.startup import connect

    if bool(key_file) == bool(token_file):
        raise InputError("hosts join by --key-file or by --token-file", hint="give one of them")
    width = max(4, len(str(hosts)))
    plan = FleetPlan(
        names=tuple(check_host_name(f"{prefix}{number:0{width}d}") for number in range(1, hosts + 1)),
        size=read_size(size),
        labels=read_labels(labels),
        storages=tuple(sorted(set(storages))),
        fail_rate=fail_rate,
        delays_s=read_delays(delays),
        faults=read_faults(faults),
        at_once=at_once,
        seed=seed,
        folder=state_dir.absolute() if state_dir is not None else None,
    )
    transport = connect(server, authority_file=ca_file, is_insecure=insecure)
    if key_file:
        tokens = tokens_from_server(transport, read_secret_lines("--key-file", key_file)[0])
    else:
        tokens = tokens_from_list(plan.names, read_secret_lines("--token-file", token_file))
    allow_open_files(2 * hosts + _SPARE_FILES)
    gc.set_threshold(50_000, 20, 50)  # a thousand agents are many objects, and nearly all of them stay

    with asyncio.Runner(loop_factory=fast_loop_factory()) as runner:
        runner.run(_run_fleet_command(transport, plan, tokens))


async def _run_fleet_command(transport: HttpTransport, plan: FleetPlan, tokens: Tokens) -> None:
    from hostler.agent.simulated_fleet import SimulatedFleet
    from hostler.agent.startup import stop_on_signals
    from hostler.telemetry.log import Log

    log = Log(lambda line: note(line, label=""))
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping"))
    hosts = SimulatedFleet(transport, plan, tokens, log=log)
    telling = asyncio.get_running_loop().create_task(_report(hosts, len(plan.names), log))
    try:
        await hosts.run(stopping)
        say(f"stopped: {_count(hosts, len(plan.names))}")
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await transport.close()
        log.finish()


async def _report(hosts: SimulatedFleet, total: int, log: Log) -> None:
    """Log how many hosts there are and what they do, after each change; on a terminal a bar shows the start."""
    shown = 0
    with progress("hosts", total) as advance:
        while sys.stderr.isatty() and len(hosts.came) + len(hosts.ended) < total:
            await asyncio.sleep(_BAR_EVERY_S)
            advance(len(hosts.came) - shown)
            shown = len(hosts.came)
    last = ""
    while True:
        line = _count(hosts, total)
        if line != last:
            log.info(line)
        last = line
        await asyncio.sleep(_TELL_EVERY_S)


def _count(hosts: SimulatedFleet, total: int) -> str:
    powers = [vm.power for driver in hosts.drivers.values() for vm in driver.vms.values()]
    parts = [f"{len(hosts.came)} of {plural(total, 'host')} joined"]
    if hosts.ended:
        parts.append(f"{len(hosts.ended)} ended")
    if powers:
        parts.append(f"{plural(len(powers), 'VM')}, {powers.count('running')} of them run")
    return ", ".join(parts)


@click.command(
    epilog=examples("hostler dev up", "hostler dev up --hosts 200 --listen 127.0.0.1:9000 --state-dir ~/hostler-dev"),
    short_help="Run a control plane with a fleet of fake hosts, and leave it running.",
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8470", show_default=True, help="The listen address.")
@click.option(
    "--hosts", metavar="N", type=click.IntRange(0, 5000), default=20, show_default=True, help="How many hosts."
)
@click.option(
    "--size", metavar="AMOUNTS", default="", help="How large each host is.  [default: cpu=16,memory=64Gi,disk=1Ti]"
)
@click.option("--silent-after", metavar="SECONDS", type=NumberRange(0.5, 3600), default=15.0, show_default=True,
              help="The time after which the VMs of a silent host are unknown.")  # fmt: skip
@click.option("--state-dir", metavar="FOLDER", type=click.Path(path_type=Path), default=None,
              help="Keep everything here for the next time.  [default: it ends with this process]")  # fmt: skip
def up(listen: str, hosts: int, size: str, silent_after: float, state_dir: Path | None) -> None:
    """Run a control plane and a fleet of fake hosts, and print how to use them.

    Everything is on this machine: an embedded database, agents that simulate their VMs, the dashboard.
    """
    from hostler.config import prepare_kernel_cache

    cache = prepare_kernel_cache("control")  # before anything imports the engine
    with require_extra("all", "dev up"):
        import uvloop

        import hostler.agent.simulated_fleet
        import hostler.control.service
        import hostler.web.routes  # noqa: F401 - what is missing is said here, before anything starts
        from hostler.cli.control.local.serve import COMPILING
        from hostler.control.kernel_warmup import exit_if_compiling

    if cache.note:
        note(cache.note)
    if not cache.is_warm:
        note(COMPILING, label="")

    def told(url: str, key_file: Path, login: str) -> None:
        cache.mark_complete()
        _show_welcome(url, key_file, login)

    def run(folder: Path) -> None:
        everything = _run_everything(
            folder, listen, hosts, size, silent_after, dict(os.environ), is_compiled=cache.is_warm, told=told
        )
        uvloop.run(everything)

    if state_dir is not None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        run(state_dir.absolute())
    else:
        with TemporaryDirectory(prefix="hostler-dev-") as folder:
            run(Path(folder))
    exit_if_compiling()


def _show_welcome(url: str, key_file: Path, login: str) -> None:
    from hostler.web.pages.login import LOGIN_LIFE_S

    minutes = LOGIN_LIFE_S // 60
    say(
        f"""The control plane is up. Open the dashboard by this address, which works once, within {minutes} minutes:

  {url}/login/once/{login}

Later, log in at {url}/ with the key in {key_file}. In another shell:

  export HOSTLER_SERVER={url} HOSTLER_KEY_FILE={key_file}
  hostler host list
  hostler vm create web --count 3 --cpu 2 --memory 4Gi --wait
  hostler vm list
  hostler vm explain web-0
  hostler dev kill host-01

Ctrl-C ends it."""
    )


async def _run_everything(
    folder: Path,
    listen: str,
    hosts: int,
    size: str,
    silent_after_s: float,
    environment: Mapping[str, str],
    *,
    is_compiled: bool,
    told: Callable[[str, Path, str], None],
) -> None:
    """Run until a signal ends it; ``told`` gets the address, the key file and the login token when it is up."""
    from hostler.agent.startup import stop_on_signals
    from hostler.control.service import ServiceOptions, serve
    from hostler.control.settings import ControlSettings, default_strategy
    from hostler.telemetry.log import Log
    from hostler.web.pages.login import OneTimeLogin
    from hostler.web.routes import mount

    log = Log(lambda line: note(line, label=""))
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping"))
    key_file = folder / "admin.key"
    login = OneTimeLogin(lambda: key_file.read_text().strip(), time.monotonic_ns)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = ControlSettings(
        strategy=default_strategy(environment),
        listen=listen,
        silent_after_s=silent_after_s,
        stop_after_s=0.8 * silent_after_s,
        heartbeat_s=min(5.0, silent_after_s / 3),
    )
    how = ServiceOptions(
        settings=settings,
        database_url=f"sqlite:///{folder / 'control.db'}",
        state=folder,
        is_compiled=is_compiled,
        mount=partial(mount, one_time=login),
        on_admin_key=lambda secret: write_secret(key_file, secret),
        on_ready=lambda url: ready.set_result(url) if not ready.done() else None,
        tell=log.info,
    )
    serving = asyncio.ensure_future(serve(how, stopping))
    first: list[asyncio.Future[object]] = [serving, ready]  # type: ignore[list-item]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        ready.cancel()
        serving.result()
        return
    url = ready.result()
    told(url, key_file, login.issue())
    fleet = asyncio.ensure_future(_join_fleet(url, key_file, hosts, size, folder, log, stopping))
    try:
        await serving
    finally:
        stopping.set()
        await asyncio.gather(fleet, return_exceptions=True)


async def _join_fleet(
    url: str, key_file: Path, hosts: int, size: str, folder: Path, log: Log, stopping: asyncio.Event
) -> None:
    from hostler.agent.simulated_fleet import FleetPlan, SimulatedFleet, tokens_from_server
    from hostler.agent.startup import connect
    from hostler.cli.control.local.dev_kill import stop_killed_hosts

    if not hosts:
        return
    transport = connect(url, authority_file=None, is_insecure=False)
    plan = FleetPlan(
        names=tuple(f"host-{number:02d}" for number in range(1, hosts + 1)),
        size=read_size(size),
        folder=folder / "hosts",
    )
    fleet = SimulatedFleet(transport, plan, tokens_from_server(transport, key_file.read_text().strip()), log=log)
    killing = asyncio.ensure_future(stop_killed_hosts(folder, fleet.kill, stopping))
    try:
        await fleet.run(stopping)
    finally:
        stopping.set()
        await asyncio.gather(killing, return_exceptions=True)
        await transport.close()


COMMANDS: Table = {
    "up": (
        "hostler.cli.control.local.dev",
        "up",
        "Run a control plane with a fleet of fake hosts, and leave it running.",
    ),
    "kill": ("hostler.cli.control.local.dev_kill", "kill", "Stop a host of 'hostler dev up', to see a failure."),
    "fleet": ("hostler.cli.control.local.dev", "fleet", "Run the agents of many fake hosts in one process."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler dev up",
        "hostler dev kill host-03",
        "hostler dev fleet --server http://127.0.0.1:8470 --key-file admin.key --hosts 20",
    ),
    short_help="Try things out on one machine: a control plane, fleets of fake hosts.",
)
def dev() -> None:
    """Try things out on one machine: a control plane, fleets of fake hosts."""
