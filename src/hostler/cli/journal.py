"""``hostler journal``: recorded runs, done again, shown, compared and made fit to share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from hostler.cli.options import FILE, examples, output_option
from hostler.cli.terminal import note, print_data, printable, say

if TYPE_CHECKING:
    from hostler.engine.journal import Applied, Journal, Saved, Stepped

__all__ = ["journal"]


@click.group(
    epilog=examples(
        "hostler place -f fleet.yaml --journal run.journal",
        "hostler journal replay run.journal",
        "hostler journal redact run.journal -o shared.journal",
    ),
    short_help="Replay, show, compare and redact recorded runs.",
)
def journal() -> None:
    """Replay, show, compare and redact recorded runs."""


@journal.command(
    epilog=examples("hostler journal replay run.journal", "hostler journal replay - < run.journal"), name="replay"
)
@click.argument("file", metavar="FILE", type=FILE)
@output_option("table", "json", "yaml")
@click.pass_context
def replay_command(ctx: click.Context, file: str, output: str) -> None:
    """Do a recorded run again and compare every decision; the exit code is 1 when one differs."""
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.files import load_journal
        from hostler.cli.plugins import registry_for
        from hostler.cli.wording import plural
        from hostler.engine.journal import Stepped, replay
        from hostler.errors import JournalError

        found = _load(file, load_journal)
        if not any(isinstance(entry, Stepped) for entry in found.entries):
            raise JournalError(f"{file}: nothing to replay", hint="the journal holds no step: the run ended before one")
        registry = registry_for(found.header.policies)
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
        say(f"differs at entry {difference.entry:,} of {len(found.entries):,}, after {result.decisions:,} decisions")
        say(f"  journal: {difference.expected}")
        say(f"  replay:  {difference.actual}")
    if difference is not None:
        ctx.exit(1)


@journal.command(epilog=examples("hostler journal show run.journal", "hostler journal show run.journal -o json"))
@click.argument("file", metavar="FILE", type=FILE)
@output_option("table", "json", "yaml")
def show(file: str, output: str) -> None:
    """Show what a journal holds, one line for each entry."""
    from hostler.cli.files import load_journal

    _prepare()
    found = _load(file, load_journal)
    if output != "table":
        import msgspec

        data = {
            "header": msgspec.to_builtins(found.header),
            "entries": [msgspec.to_builtins(entry) for entry in found.entries],
            "torn": found.torn,
        }
        print_data(data, output)
        return
    header = found.header
    policies = ", ".join(policy.name for policy in header.policies)
    redacted = ", redacted" if header.redacted else ""
    say(f"0  opened   by hostler {header.version}, policies {policies}, seed {header.seed}{redacted}")
    width = len(str(len(found.entries)))
    for number, entry in enumerate(found.entries, 1):
        say(f"{number:<{width}}  {_entry_line(entry)}")


@journal.command(epilog=examples("hostler journal diff monday.journal tuesday.journal"))
@click.argument("first", metavar="FILE_A", type=FILE)
@click.argument("second", metavar="FILE_B", type=FILE)
@click.pass_context
def diff(ctx: click.Context, first: str, second: str) -> None:
    """Say where two journals part; the exit code is 1 when they do."""
    from hostler.cli.files import load_journal

    _prepare()
    from hostler.cli.differences import differences

    lines = differences(_load(first, load_journal), _load(second, load_journal))
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
        from hostler.cli.files import atomic_file, load_journal
        from hostler.cli.plugins import registry_for
        from hostler.engine.journal import write_journal
        from hostler.engine.redaction import redact

        found = _load(file, load_journal)
        registry = registry_for(found.header.policies)
        compiled.announce()
        redacted = redact(found, registry)
    with atomic_file(target) as write:
        write_journal(redacted, write)


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


def _entry_line(entry: Applied | Stepped | Saved) -> str:
    """Write one entry in one line."""
    from hostler.cli.differences import event_line
    from hostler.engine.journal import Applied, Stepped

    if isinstance(entry, Applied):
        return f"applied  {event_line(entry.event)}"
    if isinstance(entry, Stepped):
        kinds = Counter(type(action).__name__.lower() for action in entry.actions)
        done = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "nothing to do"
        return f"stepped  at {entry.now}: {done}"
    return f"saved    a checkpoint of {len(entry.checkpoint):,} bytes"
