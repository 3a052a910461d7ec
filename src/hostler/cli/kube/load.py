"""``hostler kube load``: nodes, pods, gangs and churn for experiments."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import FILE, examples
from hostler.cli.output.terminal import note, say
from hostler.errors import InputError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.kube.api.client import KubeClient
    from hostler.kube.load.runner import LoadRunner
    from hostler.kube.load.settings import LoadSettings

__all__ = ["load"]

_RATE = re.compile(r"(?P<number>[0-9]{1,6}(\.[0-9]{1,3})?)(/(?P<unit>[smh]))?")
_UNITS = {None: 1, "s": 1, "m": 60, "h": 3600}
_TELL_EVERY_S = 2.0


@click.command(
    epilog=examples(
        "hostler kube load -f load.yaml --dry-run",
        "hostler kube load -f load.yaml --rate 100/s --for 30s",
        "hostler kube load -f load.yaml --clean",
    ),
    short_help="Create nodes, pods, gangs and churn for experiments.",
)
@click.option("-f", "--file", metavar="FILE", type=FILE, required=True, help="A file of kind Load.")
@click.option("--rate", metavar="N/s", default="", help="Pods per second; overrides the file. Also N/m and N/h.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    default="",
    help="Create for at most this long, such as 30s. Churn needs it, or ^C.",
)
@kubeconfig_option()
@context_option()
@click.option("--dry-run", is_flag=True, help="Show one object of each kind, and send nothing.")
@click.option(
    "--clean", "is_clean", is_flag=True, help="Delete what this load created, by its label, and create nothing."
)
def load(
    file: str, rate: str, duration: str, kubeconfig: Path | None, context: str, dry_run: bool, is_clean: bool
) -> None:
    """Create nodes, pods, gangs and churn on a live cluster at a rate, for experiments.

    Everything has the label hostler.dev/load with the name of the load, and --clean deletes it again.
    """
    from hostler.cli.kube.options import needs_kube

    with needs_kube():
        from hostler.kube.api.http import client_for
    from hostler.config import parse_duration
    from hostler.kube.load.settings import read_load_file

    if dry_run and is_clean:
        raise InputError("--dry-run and --clean exclude each other", hint="leave one of them out")
    wanted = read_load_file(file)
    if rate:
        wanted = _at_rate(wanted, rate)
    for_s = parse_duration(duration) / 1e9 if duration else None
    if dry_run:
        _show(wanted)
        return
    client = client_for(kubeconfig, context, user_agent="hostler-load")
    asyncio.run(_clean(client, wanted) if is_clean else _run(client, wanted, for_s))


def _at_rate(load: LoadSettings, text: str) -> LoadSettings:
    import msgspec

    match = _RATE.fullmatch(text)
    if match is None or not float(match["number"]):
        raise InputError(f"--rate {text[:40]!r} is not a rate", hint="such as 100/s, 30/m or 5")
    rate = float(match["number"]) / _UNITS[match["unit"]]
    return msgspec.structs.replace(load, pods=msgspec.structs.replace(load.pods, rate=rate))


async def _run(client: KubeClient, load: LoadSettings, for_s: float | None) -> None:
    from hostler.kube.load.runner import LoadRunner

    runner = LoadRunner(client, load, Random(os.urandom(8)))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, runner.stop)
    telling = asyncio.ensure_future(_tell(runner, load))
    try:
        await runner.run(for_s)
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await client.close()
    say(_line(runner, load))


async def _tell(runner: LoadRunner, load: LoadSettings) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        note(_line(runner, load), label="")


def _line(runner: LoadRunner, load: LoadSettings) -> str:
    """Return a line of progress."""
    tally = runner.tally
    pods = load.pods.count + load.gangs.count * load.gangs.size
    parts = [
        f"{done} of {wanted} {name}"
        for name, done, wanted in (
            ("nodes", tally.nodes, load.nodes.count),
            ("gangs", tally.gangs, load.gangs.count),
            ("pods", tally.pods, pods),
        )
        if wanted
    ]
    if load.churn.rate:
        parts.append(f"churn: {tally.churned} came, {tally.ended} went")
    if tally.found:
        parts.append(f"{tally.found} were there already")
    if tally.waits:
        parts.append(f"{tally.waits} calls repeated")
    return "; ".join(parts)


async def _clean(client: KubeClient, load: LoadSettings) -> None:
    from hostler.kube.load.runner import clean

    try:
        counts = await clean(client, load.name, Random(os.urandom(8)))
    finally:
        await client.close()
    say("deleted " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))


def _show(load: LoadSettings) -> None:
    """Print one object of each kind."""
    from hostler.config import write_yaml
    from hostler.kube.load import objects

    is_built_in = load.gangs.api != "crd"
    shown: list[tuple[str, dict[str, Any]]] = []
    if load.nodes.count:
        shown.append((f"{plural(load.nodes.count, 'node')}, such as", objects.node(load, 0)))
    if load.gangs.count:
        note_ = f"{load.gangs.count} groups{_rate(load.gangs.rate)}, such as"
        shown.append((note_, objects.pod_group(load, 0, is_built_in=is_built_in)))
        shown.append(
            (f"{plural(load.gangs.size, 'pod')} each, such as", objects.gang_pod(load, 0, 0, is_built_in=is_built_in))
        )
    if load.pods.count:
        shown.append((f"{plural(load.pods.count, 'pod')}{_rate(load.pods.rate)}, such as", objects.pod(load, 0)))
    if load.churn.rate:
        text = f"pods that go after {load.churn.lifetime_s:g} s{_rate(load.churn.rate)}, such as"
        shown.append((text, objects.churn_pod(load, 0)))
    say("\n---\n".join(f"# {text}\n{write_yaml(content).rstrip()}" for text, content in shown))


def _rate(rate: float) -> str:
    return f" at {rate:g}/s" if rate else ""
