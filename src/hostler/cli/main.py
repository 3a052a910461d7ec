"""The command ``hostler``: finds the subcommand, and turns errors into lines and exit codes.

Subcommands are imported only when they are called; their summaries stand in the table below, so that the list of
commands needs none of them. Every error ends as ``error:`` and ``hint:`` on standard error; a traceback is shown
only on request.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import click

from hostler._version import __version__
from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples
from hostler.cli.output.streams import ReaderGone, guard_streams
from hostler.cli.output.terminal import printable, printable_lines
from hostler.errors import HostlerError, InputError, PluginError

__all__ = ["COMMANDS", "TRACEBACK_VARIABLE", "cli", "main"]

TRACEBACK_VARIABLE = "HOSTLER_TRACEBACK"

EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130  # as shells show a process ended by SIGINT
EXIT_PIPE_CLOSED = 141  # … and by SIGPIPE

# name: module, variable in it, summary
COMMANDS: Table = {
    "place": ("hostler.cli.place", "place", "Place guests on hosts, both from files."),
    "explain": ("hostler.cli.explain", "explain", "Say why a guest goes where it goes, or nowhere."),
    "capacity": ("hostler.cli.capacity", "capacity", "Count how many more guests fit, or how many hosts are needed."),
    "sim": ("hostler.cli.sim", "sim", "Simulate traces and scenarios, and compare policies on them."),
    "kube": ("hostler.cli.kube", "kube", "Schedule pods on Kubernetes, and run local control planes."),
    "serve": ("hostler.cli.control.local.serve", "serve", "Serve the VM control plane: REST, dashboard, agents."),
    "agent": ("hostler.cli.control.local.agent", "agent", "Run on this host what the control plane orders."),
    "vm": ("hostler.cli.control.vm", "vm", "Create, list, move and explain VMs of a control plane."),
    "host": ("hostler.cli.control.host", "host", "List, drain, label and remove the hosts of a control plane."),
    "token": ("hostler.cli.control.credentials", "token", "Create and revoke the tokens with which hosts join."),
    "project": ("hostler.cli.control.project", "project", "Create, list and delete projects."),
    "quota": ("hostler.cli.control.project", "quota", "Set the guaranteed minimum and the maximum of projects."),
    "reservation": ("hostler.cli.control.reservation", "reservation", "Reserve room on hosts for a project or a gang."),
    "gang": ("hostler.cli.control.gang", "gang", "Place VMs together or not at all."),
    "events": ("hostler.cli.control.events", "events", "Show the events of a control plane."),
    "operation": ("hostler.cli.control.operation", "operation", "List changes in progress, and wait for them."),
    "key": ("hostler.cli.control.credentials", "key", "Create, rotate and revoke API keys."),
    "context": ("hostler.cli.control.context", "context", "Name control planes, and choose one."),
    "dev": (
        "hostler.cli.control.local.dev",
        "dev",
        "Try things out on one machine: a control plane, fleets of fake hosts.",
    ),
    "backup": ("hostler.cli.control.local.database", "backup", "Copy a control plane's database while it is used."),
    "restore": (
        "hostler.cli.control.local.database",
        "restore",
        "Replace a control plane's database with a backup.",
    ),
    "rebuild": (
        "hostler.cli.control.local.database",
        "rebuild",
        "Rebuild a control plane's engine from rows, if it cannot start otherwise.",
    ),
    "journal": ("hostler.cli.journals.journal", "journal", "Record, replay, show, compare and redact runs."),
    "policies": ("hostler.cli.about", "policies", "List the policies."),
    "plugins": ("hostler.cli.about", "plugins", "List the plugins that policies are made of."),
    "config": ("hostler.cli.configuration", "config", "Check files, show settings, print the schema."),
    "completion": ("hostler.cli.about", "completion", "Print the completion script of a shell."),
    "version": ("hostler.cli.about", "version", "Print the versions of Hostler and what it runs on."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=examples(
        "hostler place -f demo/fleet.yaml -f demo/guests.yaml",
        "hostler explain -f demo/fleet.yaml -f demo/guests.yaml web-0",
    )
    + "\n\nExit codes: 0 done, 1 the answer is no, 2 bad input or usage, 3 unavailable, 4 conflict, 70 a bug of ours.",
)
@click.version_option(__version__, message="hostler %(version)s")
def cli() -> None:
    """Decide where guests (virtual machines and pods) run on hosts, and say why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with guard_streams():
        return _run(words)


def _run(words: list[str]) -> int:
    try:
        result = cli.main(words, prog_name="hostler", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        return _usage(error, words)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except ReaderGone:
        return EXIT_PIPE_CLOSED
    except HostlerError as error:
        _trace()
        _complain(_located(error), _with_traceback(error, error.hint or _usual_hint(error, words)))
        return error.exit_code
    except Exception as error:
        return _bug(error)
    return result if isinstance(result, int) else 0


def _complain(message: str, hint: str) -> None:
    click.echo(f"error: {_one_line(message)}", err=True)
    click.echo(f"hint: {_one_line(hint)}", err=True)


def _one_line(text: str) -> str:
    """Write words that may be a server's, or a host's behind it, so that they forge no line and move no cursor."""
    return printable(" ".join(line.strip() for line in text.splitlines()))


def _usage(error: click.ClickException, words: Sequence[str]) -> int:
    """Write a usage error of click's in our form."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return EXIT_USAGE
    context: click.Context | None = getattr(error, "ctx", None)
    near = getattr(error, "possibilities", None)
    message = str(error.message) if near else error.format_message()
    hint = f"see '{context.command_path if context else 'hostler'} --help'"
    if context is not None:
        hint = (
            _nearest_command(context, message, words)
            or _misplaced_option(context, error, words)
            or _misplaced_file(context, words)
            or hint
        )
    if near and not hint.startswith(("did", "it goes")):
        hint = f"did you mean {' or '.join(near)}?"
    _complain(message[:1].lower() + message[1:].rstrip("."), hint)
    return EXIT_USAGE


def _nearest_command(context: click.Context, message: str, words: Sequence[str]) -> str:
    """Return a hint for a command that does not exist; empty if the error is another one."""
    if not isinstance(context.command, click.Group) or not message.startswith("No such command"):
        return ""
    from hostler.cli.command_suggestions import suggest_command

    near = suggest_command(context, message.partition("'")[2].partition("'")[0], words)
    return f"did you mean '{near}'?" if near else ""


def _misplaced_option(context: click.Context, error: click.ClickException, words: Sequence[str]) -> str:
    """Return a hint for an option that stands before the command that has it; empty where there is none such."""
    if not isinstance(error, click.NoSuchOption) or not isinstance(context.command, click.Group):
        return ""
    path = context.command_path
    command: click.Command = context.command
    depth = len(path.split()) - 1
    for word in words[depth:]:
        inner = command.get_command(context, word) if isinstance(command, click.Group) else None
        if inner is not None:
            path, command = f"{path} {word}", inner
    has_it = command is not context.command and any(error.option_name in one.opts for one in command.params)
    return f"it goes behind the command: '{path} {error.option_name} …'" if has_it else ""


def _misplaced_file(context: click.Context, words: Sequence[str]) -> str:
    """Return a hint for a file that was given without ``-f``; empty where there is none."""
    from hostler.config import FILE_ENDINGS

    if not any("-f" in parameter.opts for parameter in context.command.params):
        return ""
    for before, word in pairwise(words):
        is_file = word.endswith(FILE_ENDINGS) and not word.startswith("-")
        if is_file and (not before.startswith("-") or "=" in before):
            return f"did you mean -f {word}?"
    return ""


def _bug(error: Exception) -> int:
    """Report something that should never happen."""
    _trace()
    text = " ".join(str(error).split())[:300]
    wanted = "the lines above" if os.environ.get(TRACEBACK_VARIABLE) else f"what {TRACEBACK_VARIABLE}=1 shows"
    _complain(
        f"this is a bug of ours: {type(error).__name__}{f': {text}' if text else ''}",
        f"please report it with the command and {wanted}",
    )
    return EXIT_BUG


def _trace() -> None:
    if os.environ.get(TRACEBACK_VARIABLE):
        click.echo(printable_lines(traceback.format_exc()), err=True, nl=False)


def _located(error: HostlerError) -> str:
    """Return the message with the place in a plugin, whose path is short if it is below the working folder."""
    return error.located_message().removeprefix(f"{Path.cwd()}{os.sep}") if error.place else error.message


def _with_traceback(error: HostlerError, hint: str) -> str:
    """Say how to see where a stranger's plugin failed."""
    if not isinstance(error, PluginError) or os.environ.get(TRACEBACK_VARIABLE):
        return hint
    return f"{hint}; {TRACEBACK_VARIABLE}=1 shows where it failed"


def _usual_hint(error: HostlerError, words: Sequence[str]) -> str:
    """Return a hint for an error that has none of its own."""
    command = next((word for word in words if word in COMMANDS), "")
    where = f"see '{' '.join(filter(None, ('hostler', command, '--help')))}'"
    return f"{where}; 'hostler config schema' lists the keys of files" if isinstance(error, InputError) else where
