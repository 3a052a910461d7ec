"""``hostler dev fleet``: the agents of many fake hosts in one process."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.control.agent_options import (
    check_host_name,
    read_labels,
    read_secret_lines,
    read_size,
    server_options,
)
from hostler.cli.control.fake_options import fake_options, read_delays, read_faults
from hostler.cli.options import FILE, NumberRange, examples, seed_option
from hostler.cli.terminal import note, progress, say
from hostler.cli.wording import plural
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.agent.fleet import Fleet, FleetPlan, Tokens
    from hostler.agent.http import HttpTransport
    from hostler.telemetry.log import Log

__all__ = ["fleet"]

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
@click.option("--prefix", metavar="TEXT", default="host-", show_default=True, help="How the names of hosts begin.")
@click.option(
    "--size", metavar="AMOUNTS", default="", help="How large each host is.  [default: cpu=16,memory=64Gi,disk=1Ti]"
)
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of all hosts; as often as wanted.")
@click.option("--storage", "storages", metavar="NAME", multiple=True, help="Storage that all hosts share.")
@click.option(
    "--fail-rate",
    metavar="SHARE",
    type=NumberRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="The share of deeds that fail on purpose, between 0 and 1.",
)
@fake_options()
@seed_option()
@click.option(
    "--at-once",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="How many hosts may be on their way in at the same time.",
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
    """Run the agents of many fake hosts in one process, until told to stop.

    Each host joins the control plane like a real one; its VMs are only books. For demos, tests and measurements.
    """
    from hostler.cli.control.extras import needs

    with needs("agent", "dev fleet"):
        from hostler.agent.fleet import FleetPlan, asked_tokens, listed_tokens
        from hostler.agent.running import connect

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
        tokens = asked_tokens(transport, read_secret_lines("--key-file", key_file)[0])
    else:
        tokens = listed_tokens(plan.names, read_secret_lines("--token-file", token_file))
    _allow_files(2 * hosts + _SPARE_FILES)
    gc.set_threshold(50_000, 20, 50)  # a thousand agents are many objects, and nearly all of them stay

    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_run(transport, plan, tokens))


async def _run(transport: HttpTransport, plan: FleetPlan, tokens: Tokens) -> None:
    from hostler.agent.fleet import Fleet
    from hostler.agent.running import stop_on_signals
    from hostler.telemetry.log import Log

    log = Log(lambda line: note(line, label=""))
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping"))
    hosts = Fleet(transport, plan, tokens, warn=log.warn)
    telling = asyncio.get_running_loop().create_task(_tell(hosts, len(plan.names), log))
    try:
        await hosts.run(stopping)
        say(f"stopped: {_count(hosts, len(plan.names))}")
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await transport.close()
        log.finish()


async def _tell(hosts: Fleet, total: int, log: Log) -> None:
    """Say how many hosts are there and what they do, whenever that has changed; on a terminal a bar shows the start."""
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


def _count(hosts: Fleet, total: int) -> str:
    powers = [vm.power for driver in hosts.drivers.values() for vm in driver.vms.values()]
    parts = [f"{len(hosts.came)} of {plural(total, 'host')} joined"]
    if hosts.ended:
        parts.append(f"{len(hosts.ended)} ended")
    if powers:
        parts.append(f"{plural(len(powers), 'VM')}, {powers.count('running')} of them run")
    return ", ".join(parts)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the faster event loop; None where it is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _allow_files(wanted: int) -> None:
    """Let this process open a connection or two per host."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise InputError(
            f"so many hosts need {wanted} open files, and this process may have {hard}",
            hint=f"raise the limit with 'ulimit -Hn {wanted}', or run fewer hosts per process",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
