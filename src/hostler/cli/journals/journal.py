"""``hostler journal``: recorded runs, done again, shown, compared and made fit to share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import FILE, examples, output_option, plugin_option
from hostler.cli.output.terminal import note, print_data, printable, say

if TYPE_CHECKING:
    from hostler.engine.journals.journal import Journal

__all__ = ["journal"]


@click.group(
    epilog=examples(
        "hostler place -f fleet.yaml --journal run.journal",
        "hostler journal replay run.journal",
        "hostler journal redact run.journal -o shared.journal",
        "hostler journal record -o cluster.journal --for 10m",
    ),
    short_help="Record, replay, show, compare and redact runs.",
)
def journal() -> None:
    """Record, replay, show, compare and redact runs."""


@journal.command(
    epilog=examples("hostler journal replay run.journal", "hostler journal replay - < run.journal"), name="replay"
)
@click.argument("file", metavar="FILE", type=FILE)
@plugin_option()
@output_option("table", "json", "yaml")
@click.pass_context
def replay_command(ctx: click.Context, file: str, plugins: tuple[Path, ...], output: str) -> None:
    """Do a recorded run again and compare every decision; the exit code is 1 when one differs."""
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.files import load_journal
        from hostler.cli.output.decision_texts import plural
        from hostler.engine.journals.journal import StepEntry, replay
        from hostler.errors import JournalError
        from hostler.runtime.plugin_files import load_plugin_files
        from hostler.runtime.plugins import registry_for

        found = _load(file, load_journal)
        if not any(isinstance(entry, StepEntry) for entry in found.entries):
            raise JournalError(f"{file}: nothing to replay", hint="the journal holds no step: the run ended before one")
        registry = registry_for(found.header.policies, load_plugin_files(plugins).factories)
        compiled.announce()
        result = replay(found, registry=registry)
    difference = result.difference
    if output != "table":
        import msgspec

        counts = {"entries": len(found.entries), "steps": result.steps, "decisions": result.decisions}
        print_data({**counts, "identical": difference is None, "difference": msgspec.to_builtins(difference)}, output)
    elif difference is None:
        entries, steps = plural(len(found.entries), "entry"), plural(result.steps, "step")
        say(f"{entries}, {steps}, {plural(result.decisions, 'decision')}: identical")
    else:
        decided = plural(result.decisions, "decision")
        say(f"differs at entry {difference.entry:,} of {len(found.entries):,}, after {decided}")
        say(f"  journal: {difference.expected}")
        say(f"  replay:  {difference.actual}")
    if difference is not None:
        ctx.exit(1)


@journal.command(
    epilog=examples(
        "hostler journal show run.journal",
        "hostler journal show run.journal --guest web-0 --kind bind --kind hold",
        "hostler journal show run.journal --json",
    )
)
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "--guest", metavar="GUEST", default="", help="Only what is about this guest: a name, NAMESPACE/NAME, uid."
)
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind, such as bind; as often as you like."
)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@output_option("table", "json", "yaml")
def show(file: str, guest: str, kinds: tuple[str, ...], as_json: bool, output: str) -> None:
    """Show what a journal holds: a line for each fact and for each action, and a summary at the end."""
    from hostler.cli.files import load_journal

    _prepare()
    from hostler.cli.journals.lines import journal_as_data, parse_kind, print_journal

    found = _load(file, load_journal)
    wanted = frozenset(map(parse_kind, kinds))
    if as_json or output != "table":
        print_data(journal_as_data(found, guest, wanted), "json" if as_json else output)
    else:
        print_journal(found, guest, wanted)


@journal.command(epilog=examples("hostler journal diff monday.journal tuesday.journal"))
@click.argument("first", metavar="FILE_A", type=FILE)
@click.argument("second", metavar="FILE_B", type=FILE)
@click.pass_context
def diff(ctx: click.Context, first: str, second: str) -> None:
    """Say where two journals part; the exit code is 1 when they do."""
    from hostler.cli.files import load_journal

    _prepare()
    from hostler.cli.journals.differences import find_differences

    lines = find_differences(_load(first, load_journal), _load(second, load_journal))
    for line in lines:
        say(printable(line))
    if lines:
        ctx.exit(1)
    say("identical")


@journal.command(epilog=examples("hostler journal redact run.journal -o shared.journal"), name="redact")
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="OUT",
    type=FILE,
    required=True,
    help="The file to write; '-' is standard output.",
)
def redact_command(file: str, target: str) -> None:
    """Replace every name in a journal consistently, so that it can be shared; it replays as before.

    Hosts, guests, uids, labels, taints and namespaces get new names. Kept are the names of resources, the kinds and
    models of devices, the names of policies and plugins, and whole numbers in labels: look whether these may be shared.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.files import atomic_file, load_journal, say_written
        from hostler.cli.output.decision_texts import plural
        from hostler.engine.journals.journal import write_journal
        from hostler.engine.journals.redaction import redact
        from hostler.runtime.plugins import registry_for

        found = _load(file, load_journal)
        registry = registry_for(found.header.policies)
        compiled.announce()
        redacted = redact(found, registry)
    size = 0
    with atomic_file(target) as write:

        def count(part: bytes) -> None:
            nonlocal size
            size += len(part)
            write(part)

        write_journal(redacted, count)
    say_written(target, plural(len(redacted.entries), "entry"), size)


@journal.command(
    epilog=examples(
        "hostler journal record -o cluster.journal --for 60s",
        "hostler journal record -o cluster.journal --rotate 64Mi --keep 5 --redact --policy pack",
    )
)
@click.option("-o", "--output", "target", metavar="FILE", type=FILE, required=True, help="The file to write.")
@click.option("--for", "duration", metavar="TIME", default="", help="How long, such as 60s or 1h; else until a signal.")
@click.option("--rotate", metavar="SIZE", default="", help="Begin a new file after so many bytes, such as 64Mi.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(min=0), default=10, show_default=True, help="Full files to keep; 0: all."
)
@click.option("--redact", "hide", is_flag=True, help="Replace every name, as 'hostler journal redact' does.")
@click.option("--config", metavar="FILE", type=FILE, default="", help="The scheduler's configuration.")
@click.option("--policy", metavar="NAME", default="", help="The policy, without --config.  [default: kubernetes]")
@kubeconfig_option()
@context_option()
@click.pass_context
def record(
    ctx: click.Context, target: str, duration: str, rotate: str, keep: int, hide: bool, config: str, policy: str,
    kubeconfig: Path | None, context: str,
) -> None:  # fmt: skip
    """Follow a live cluster like a scheduler, write nothing there, and record what a policy would decide.

    What others bind are facts; what the policy would do is recorded beside them. Full files get a number and begin with
    a checkpoint, so that each can be replayed alone. The exit code is 1 when the disk did not take all of it.
    """
    from hostler.cli.kernels import kernels
    from hostler.config import parse_duration
    from hostler.model import parse_quantity

    seconds = parse_duration(duration) / 1e9 if duration else None
    limit = parse_quantity(rotate) if rotate else 0
    with kernels() as compiled:
        from hostler.cli.kube.live import live_settings
        from hostler.cli.kube.options import needs_kube
        from hostler.cli.output.decision_texts import plural

        with needs_kube():
            from hostler.cli.kube.record import record_cluster, with_default_scheduler
            from hostler.kube.api.access import read_access

        settings = with_default_scheduler(live_settings(config, policy))
        access = read_access(kubeconfig, context)
        compiled.announce()
        done = record_cluster(access, settings, Path(target), seconds=seconds, limit=limit, keep=keep, hide=hide)
    counts = done.counts
    say(
        f"{plural(counts.facts, 'fact')}, {plural(counts.decisions, 'decision')} to bind, "
        f"{plural(len(done.files), 'file')}, {sum(done.files.values()):,} bytes"
    )
    for name, size in done.files.items():
        say(f"  {printable(name)}  {size:,} bytes")
    if counts.agreed or counts.differed or counts.unplaced:
        say(
            f"others bound {plural(counts.agreed, 'pod')} where the policy would have, {counts.differed:,} elsewhere, "
            f"and {counts.unplaced:,} that it had not placed"
        )
    if not done.is_whole:
        ctx.exit(1)


def _prepare() -> None:
    """Point numba at its cache before anything imports the engine, though nothing is compiled here."""
    from hostler.config import prepare_kernel_cache

    prepare_kernel_cache()


def _load(file: str, load: Callable[[str], Journal]) -> Journal:
    """Read a journal and say what was lost at its end."""
    found = load(file)
    if found.torn:
        note(f"{file}: {found.torn}")
    return found
