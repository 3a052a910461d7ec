"""The options that say how a trace is read and on which hosts it runs: for ``sim trace`` and ``sim run``.

A command that takes ``@trace_options()`` passes their values to ``load_trace`` unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from hostler.cli.output.terminal import note

if TYPE_CHECKING:
    from hostler.sim.sweeps.cells import TraceSource
    from hostler.sim.workload import Workload

__all__ = ["OPTION_NAMES", "is_trace", "load_trace", "refuse_openb_options", "trace_options", "trace_source"]

F = TypeVar("F", bound=Callable[..., Any])

_ENDINGS = (".csv", ".csv.gz", ".parquet", ".journal", ".txt", ".txt.gz")
MAX_DEVICES = 64  # as in the model, which is imported late
OPTION_NAMES = {
    "format_name": "--format",
    "hosts": "--hosts",
    "host_cpu": "--host-cpu",
    "host_memory": "--host-memory",
    "host_gpus": "--host-gpus",
    "hosts_file": "--hosts-file",
    "mapped": "--map",
    "censored": "--censored",
    "no_tenants": "--no-tenants",
}  # parameters of a command to what users type


def trace_options() -> Callable[[F], F]:
    """Add the options that say how a trace is read, except ``--data-dir``."""
    options = [
        click.option("--format", "format_name", metavar="NAME", default=None, help="The format. Default: detected."),
        click.option("--hosts", metavar="N", type=click.IntRange(1, 1_000_000), help="Put it on N equal hosts."),
        click.option("--host-cpu", metavar="AMOUNT", default="", help="Cores of each of these hosts, such as 40."),
        click.option("--host-memory", metavar="AMOUNT", default="", help="Their memory, such as 90Gi."),
        click.option(
            "--host-gpus",
            metavar="N",
            type=click.IntRange(0, MAX_DEVICES),
            default=None,
            help="Their GPUs. Default: 8, or more if a guest asks for more; 0 if none asks for GPUs.",
        ),
        click.option(
            "--hosts-file", metavar="FILE", type=click.Path(path_type=Path), help="A table of hosts, CSV or Parquet."
        ),
        click.option(
            "--map", "mapped", metavar="OURS=THEIRS", multiple=True, help="What a table calls one of our columns."
        ),
        click.option(
            "--censored",
            type=click.Choice(["end", "forever"]),
            default="end",
            show_default=True,
            help="How long VMs of azure-vm-v1 run if their end is unknown: to the trace's end, or for good.",
        ),
        click.option("--no-tenants", is_flag=True, help="Leave tenants out: far fewer distinct guests."),
    ]

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def is_trace(what: str) -> bool:
    """Say whether a trace is meant: by its name, or by an option that only traces have."""
    from hostler.errors import InputError

    context = click.get_current_context()
    given = [
        option
        for name, option in OPTION_NAMES.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given and what == "openb":
        hint = f"run openb as a trace: 'hostler sim run openb/default {given[0]} …'"
        raise InputError(f"{given[0]} is for traces; 'openb' has its own hosts", hint=hint)
    return bool(given) or what.startswith("openb/") or what.endswith(_ENDINGS)


def refuse_openb_options(*, plays_trace: bool) -> None:
    """Reject options that mean nothing to a scenario or a trace, instead of ignoring them."""
    context = click.get_current_context()
    of_openb = {"workload": "--workload", "workloads": "--workload", "tune": "--tune"}
    for name, option in (of_openb if plays_trace else {**of_openb, "data_dir": "--data-dir"}).items():
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            reason = "a trace is run as it is" if plays_trace else "a scenario says so itself"
            raise click.UsageError(f"{option} is for openb; {reason}")


def load_trace(
    path: str,
    *,
    format_name: str | None,
    hosts: int | None,
    host_cpu: str,
    host_memory: str,
    host_gpus: int | None,
    hosts_file: Path | None,
    mapped: tuple[str, ...],
    censored: str,
    no_tenants: bool,
    data_dir: Path | None,
) -> Workload:
    """Read a trace as the options say; notes about it go to standard error."""
    from hostler.sim.traces.formats import read_trace
    from hostler.sim.traces.options import TraceOptions

    options = TraceOptions(
        hosts=hosts,
        host_cpu=host_cpu,
        host_memory=host_memory,
        host_gpus=host_gpus,
        hosts_file=hosts_file,
        columns=_mapping(mapped),
        censored="forever" if censored == "forever" else "end",
        tenants=not no_tenants,
        data_dir=data_dir,
        note=note,
    )
    return read_trace(path, format_name, options)


def trace_source(
    path: str,
    *,
    format_name: str | None,
    hosts: int | None,
    host_cpu: str,
    host_memory: str,
    host_gpus: int | None,
    hosts_file: Path | None,
    mapped: tuple[str, ...],
    censored: str,
    no_tenants: bool,
) -> TraceSource:
    """Return the trace as data that goes to other processes and machines; its files are named by whole paths."""
    from hostler.sim.sweeps.cells import TraceSource

    return TraceSource(
        path=str(Path(path).resolve()) if Path(path).exists() else path,
        format=format_name,
        hosts=hosts,
        host_cpu=host_cpu,
        host_memory=host_memory,
        host_gpus=host_gpus,
        hosts_file=str(hosts_file.resolve()) if hosts_file is not None else "",
        columns=tuple(_mapping(mapped).items()),
        censored="forever" if censored == "forever" else "end",
        tenants=not no_tenants,
    )


def _mapping(mapped: tuple[str, ...]) -> dict[str, str]:
    from hostler.errors import DuplicateNameError, InputError

    found: dict[str, str] = {}
    for text in mapped:
        ours, equals, theirs = text.partition("=")
        if not equals or not ours or not theirs:
            raise InputError(f"--map {text!r} has not the form OURS=THEIRS", hint="such as --map cpu=cores")
        if ours in found:
            raise DuplicateNameError(f"--map names column {ours!r} twice", hint="keep one of them")
        found[ours] = theirs
    return found
