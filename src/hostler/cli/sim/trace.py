"""``hostler sim trace``: traces of guests that come and go, described and converted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.options import FILE, examples, output_option
from hostler.cli.output.terminal import note, print_data, print_table, say
from hostler.cli.sim.options import data_dir_option
from hostler.cli.sim.trace_options import load_trace, trace_options

if TYPE_CHECKING:
    from hostler.sim.traces.summary import ResourceDemand, TraceSummary
    from hostler.sim.workload import Workload

__all__ = ["trace"]

_GIB = 2**30


@click.group(
    epilog=examples(
        "hostler sim trace formats",
        "hostler sim trace describe openb",
        "hostler sim trace convert trace.csv --map cpu=cores --to parquet -O trace.parquet",
    ),
    short_help="Describe and convert traces of guests that come and go.",
)
def trace() -> None:
    """Describe and convert traces of guests that come and go."""


@trace.command(epilog=examples("hostler sim trace formats", "hostler sim trace formats -o json"))
@output_option("table", "json", "yaml")
def formats(output: str) -> None:
    """List the formats of traces."""
    _prepare()
    from hostler.sim.traces.formats import FORMATS

    if output != "table":
        print_data([{"name": name, "summary": one.summary} for name, one in FORMATS.items()], output)
        return
    print_table([("FORMAT", "left"), ("WHAT IT IS", "left")], [(name, one.summary) for name, one in FORMATS.items()])


@trace.command(
    epilog=examples(
        "hostler sim trace describe openb",
        "hostler sim trace describe Huawei-East-1-lt.csv.gz --hosts 50 --host-cpu 40 --host-memory 90Gi",
        "hostler sim trace describe jobs.csv --map cpu=cores --map arrival=submit_time -o json",
    )
)
@click.argument("path", metavar="PATH")
@trace_options()
@data_dir_option()
@output_option("table", "json", "yaml")
def describe(path: str, output: str, **options: Any) -> None:  # noqa: ANN401 (see trace_options)
    """Say what a trace holds: guests, sizes, times, and demand against capacity.

    PATH is a file, or openb or openb/WORKLOAD for the trace that comes with Hostler.
    """
    _prepare()
    workload = load_trace(path, **options)
    from hostler.sim.traces.summary import summarize_trace

    found = summarize_trace(workload)
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(found), output)
        return
    _show(found)


@trace.command(
    epilog=examples(
        "hostler sim trace convert openb --to kubernetes -O openb.yaml",
        "hostler sim trace convert batched_0.csv.gz --to table -O azure.csv",
    )
)
@click.argument("path", metavar="PATH")
@click.option(
    "--to",
    "kind",
    type=click.Choice(["table", "parquet", "fleet", "kubernetes"]),
    required=True,
    help="Our table as CSV or Parquet (hosts in a second file, OUT.hosts), a fleet, or nodes and pods.",
)
@click.option(
    "-O", "--out", "target", metavar="OUT", type=FILE, required=True, help="The file to write; .json gives JSON."
)
@trace_options()
@data_dir_option()
def convert(path: str, kind: str, target: str, **options: Any) -> None:  # noqa: ANN401 (see trace_options)
    """Write a trace in another format; a file appears only when it is complete.

    Tables keep everything. Pods carry their times as annotations, and have no tenants; a fleet has no times.
    """
    if Path(path).exists() and Path(target).exists() and Path(path).samefile(target):
        raise click.UsageError(f"{target} is the file that is read; name another one")
    _prepare()
    workload = load_trace(path, **options)
    _write(workload, kind, target)
    for line in _losses(workload, kind):
        note(line)


def _write(workload: Workload, kind: str, target: str) -> None:
    """Write everything first, then let the files appear."""
    import gzip

    from hostler.cli.files import STANDARD_STREAM, atomic_file
    from hostler.errors import InputError
    from hostler.sim.traces.output import fleet_bytes, kubernetes_bytes, table_bytes
    from hostler.sim.traces.tables.input import hosts_path

    if kind in ("table", "parquet"):
        if target == STANDARD_STREAM:
            raise InputError("a table is two files, so it cannot go to standard output", hint="name a file by -O")
        guests, hosts = table_bytes(workload, is_parquet=kind == "parquet")
        if target.endswith(".gz"):
            guests = gzip.compress(guests, mtime=0)
        # The hosts appear first: guests without their hosts would be read as another trace.
        with atomic_file(target) as write_guests, atomic_file(str(hosts_path(Path(target)))) as write_hosts:
            write_guests(guests)
            write_hosts(hosts)
        return
    is_json = target.endswith(".json")
    as_bytes = fleet_bytes if kind == "fleet" else kubernetes_bytes
    content = as_bytes(workload, is_json=is_json)
    with atomic_file(target) as write:
        write(content)


def _losses(workload: Workload, kind: str) -> list[str]:
    """Say what the other format has no place for."""
    lines = []
    if kind == "fleet":
        lines.append("a fleet has no times: arrivals and durations are left out")
    if kind == "kubernetes" and any(spec.tenant for spec in workload.specs):
        lines.append("a pod does not name its tenant: tenants are left out")
    return lines


def _prepare() -> None:
    """Point numba at its cache before anything imports the engine, though nothing is compiled here."""
    from hostler.config import prepare_kernel_cache

    prepare_kernel_cache()


def _show(found: TraceSummary) -> None:
    from hostler.cli.output.decision_texts import plural

    of_tenants = f", {plural(found.tenants, 'tenant')}" if found.tenants else ""
    say(f"{found.name}: {plural(found.guests, 'guest')} of {plural(found.sizes, 'size')}{of_tenants}")
    say(f"{plural(found.hosts, 'host')} of {plural(found.host_sizes, 'size')}")
    rate = f", {found.arrivals_per_hour:,.1f} arrivals per hour" if found.arrivals_per_hour is not None else ""
    say(f"arrivals over {_time(found.span_s)}{rate}")
    if found.duration_median_s is not None and found.duration_p95_s is not None:
        median, p95 = _time(found.duration_median_s), _time(found.duration_p95_s)
        staying = plural(found.guests - found.leaving, "guest")
        say(f"durations: median {median}, 95 % below {p95}; never leaving: {staying}")
    else:
        say("no guest leaves")
    if found.gangs:
        say(f"{plural(found.gangs, 'gang')} with {plural(found.in_gangs, 'guest')}")
    if found.fit_nowhere:
        say(f"{plural(found.fit_nowhere, 'guest')} larger than every host")
    say(f"peak: {plural(found.peak_guests, 'guest')} at once, if all are placed on arrival")
    say()
    rows = [
        _demand("cpu (cores)", found.cpu, 1000),
        _demand("memory (GiB)", found.memory, _GIB),
        _demand("gpus", found.gpu, 1000),
    ]
    print_table(
        [("RESOURCE", "left"), ("CAPACITY", "right"), ("PEAK DEMAND", "right"), ("SHARE", "right")],
        [row for row in rows if row[1:3] != ("0.0", "0.0")],
    )
    say()
    kinds = [(kind.replace("_", " "), f"{count:,}") for kind, count in found.kinds.items()]
    print_table([("KIND", "left"), ("GUESTS", "right")], kinds)


def _demand(name: str, demand: ResourceDemand, unit: int) -> tuple[str, str, str, str]:
    share = f"{100 * demand.share:.1f}%" if demand.share is not None else "-"
    return name, f"{demand.capacity / unit:,.1f}", f"{demand.peak / unit:,.1f}", share


def _time(seconds: float) -> str:
    """Write a time so that a person can compare it."""
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
