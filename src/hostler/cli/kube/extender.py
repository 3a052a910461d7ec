"""``hostler kube extender``: an unmodified kube-scheduler places pods by a Hostler policy."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click

from hostler.cli.kernels import kernels
from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import examples, policy_option
from hostler.cli.output.terminal import note
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.kube.api.client import KubeClient
    from hostler.model import Policy

__all__ = ["extender"]

DEFAULT_LISTEN = "127.0.0.1:10360"


@click.command(
    epilog=examples(
        "hostler kube extender --policy fgd",
        "hostler kube extender --policy pack --listen 0.0.0.0:10360 --kubeconfig ~/.kube/config",
    ),
    short_help="Let an unmodified kube-scheduler place pods by a Hostler policy.",
)
@policy_option()
@click.option(
    "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Address for kube-scheduler."
)
@kubeconfig_option()
@context_option()
@click.option(
    "--nodes-per-filter",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many of the best nodes to return to kube-scheduler; with 1 the policy alone decides.",
)
def extender(policy: str, listen: str, kubeconfig: Path | None, context: str, nodes_per_filter: int) -> None:
    """Answer kube-scheduler's calls as an extender, so that it places pods by a Hostler policy.

    In a KubeSchedulerConfiguration, name the address under extenders, with filterVerb: filter, bindVerb: bind and
    nodeCacheCapable: true. The bind verb writes a pod's GPUs into its annotations.
    """
    from hostler.cli.kube.options import needs_kube

    host, port = _address(listen)
    with kernels() as compiled:
        with needs_kube():
            from hostler.kube.api.http import client_for
        from hostler.config import load_settings
        from hostler.engine import BUILT_IN, find_policy

        settings = load_settings(BUILT_IN, policy=policy)
        known = {**BUILT_IN, **{one.name: one for one in settings.policies}}
        chosen = find_policy(settings.default_policy, known)
        client = client_for(kubeconfig, context, user_agent="hostler-extender")
        compiled.announce()
        asyncio.run(_serve(client, chosen, (host, port), nodes_per_filter))


async def _serve(client: KubeClient, policy: Policy, listen: tuple[str, int], nodes_per_filter: int) -> None:
    from hostler.kube.extender.server import serve
    from hostler.runtime.clock import SteadyClock
    from hostler.runtime.plugins import registry_for

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await serve(
            client,
            policy,
            listen,
            stop,
            clock=SteadyClock(),
            random=Random(os.urandom(8)),  # for jitter, not for secrets
            registry=registry_for([policy]),
            say=lambda line: note(line, label=""),
            nodes_per_filter=nodes_per_filter,
        )
    finally:
        await client.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--listen {text[:60]!r} is not an address", hint=f"write it as {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)
