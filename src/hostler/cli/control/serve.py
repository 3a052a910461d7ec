"""The command ``hostler serve``: one process of the VM control plane."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hostler.cli.control.database_option import database_option
from hostler.cli.control.serve_limits import limit_options
from hostler.cli.options import NumberRange, examples
from hostler.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["serve"]

_SHORTEST_S = 60  # less would forget what a client is still waiting for


def _keeping(option: str, default: str, text: str) -> Callable[[F], F]:
    """Return an option that says how long something is kept."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
        from hostler.cli.control.asking import seconds_of

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
    help="Where to answer: HOST:PORT. PORT alone is one of 127.0.0.1, HOST alone means port 8470.",
)
@click.option("--name", "names", multiple=True, help="A name by which clients call it; may be repeated.")
@click.option("--strategy", default="", help="The strategy of VMs that name none; beats SCHEDULING_STRATEGY.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="The certificate, PEM; needed beyond loopback.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM.")
@click.option("--insecure", is_flag=True, help="Listen beyond loopback without TLS. Keys can then be read on the way.")
@click.option(
    "--admin-key-file", type=click.Path(path_type=Path), help="Write the very first key here, not to the log."
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
@_keeping("--keep-events", "168h", "How long events and deleted VMs are kept.")
@_keeping("--keep-operations", "168h", "How long operations are kept that ended.")
@_keeping("--keep-idempotency-keys", "24h", "How long a repeated request gets its first answer again.")
@click.option("--fence-command", default="", help="A program that proves a silent host dead; gets HOSTLER_HOST.")
@click.option("--no-dashboard", is_flag=True, help="Serve REST alone.")
@limit_options
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How log lines look."
)
def serve(**options: object) -> None:
    """Serve the VM control plane: users create VMs over REST, agents carry it out."""
    from hostler.cli.control.serving import Options, run_service

    run_service(dict(os.environ), Options(**options))  # type: ignore[arg-type]
