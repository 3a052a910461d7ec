"""``--wait``: follow a change until it has come true, with a line on a terminal that says how far it is."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.control.asking import seconds_of
from hostler.cli.terminal import printable

if TYPE_CHECKING:
    from hostler.control.api.shapes import Operation, Vm, VmChanged
    from hostler.control.client import Client
    from hostler.errors import HostlerError

__all__ = [
    "WAIT_S", "WaitingCommand", "end_with", "failure_of", "follow", "progress_line", "wait_option", "watch_operation",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

WAIT_S = 300
_STEP_S = 1  # of one long poll: as often the state is looked at
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?(ms|s|m|h)?([0-9]+(m|s))?")


class WaitingCommand(click.Command):
    """A command whose ``--wait`` may stand without a number, also before a name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare ``--wait`` its usual number: click would take the next word for it."""
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        for at, word in enumerate(words[:end]):
            after = words[at + 1] if at + 1 < len(words) else ""
            if word == "--wait" and not _SECONDS.fullmatch(after):
                words[at] = f"--wait={WAIT_S}"
        return super().parse_args(ctx, words)


def wait_option(help_text: str = "Wait until it has come true") -> Callable[[F], F]:
    """Add ``--wait [SECONDS]``, for a command of class WaitingCommand."""
    return click.option(
        "--wait",
        "wait_s",
        metavar="[SECONDS]",
        default=None,
        callback=lambda ctx, parameter, value: None if value is None else seconds_of("--wait", value),
        help=f"{help_text}, at most so long (such as 90 or 5m; {WAIT_S} where nothing is said).",
    )


def follow(client: Client, changes: Sequence[VmChanged], wait_s: int | None) -> list[VmChanged]:
    """Wait for changes of VMs one after the other, all within the same time; each as it was seen last.

    One that fails ends nothing: what became of the others is asked for too. ``end_with`` tells all of it.
    """
    if wait_s is None:
        return list(changes)
    until = time.monotonic() + wait_s
    with progress_line() as show:
        return [_follow_one(client, change, until, show) for change in changes]


def _follow_one(client: Client, change: VmChanged, until: float, show: Callable[[str], None]) -> VmChanged:
    import msgspec

    from hostler.control.client.errors import UnknownThereError

    vm = change.vm

    def look() -> str:
        nonlocal vm
        try:
            vm = client.vms.get(vm.id)
        except UnknownThereError:
            return f"{vm.name}: gone"
        return f"{vm.name}: {vm.state}" + (f" on {vm.host}" if vm.host else "") + (f" ({vm.why})" if vm.why else "")

    operation = watch_operation(client, change.operation, until, lambda: show(look()))
    look()
    return msgspec.structs.replace(change, vm=vm, operation=operation)


def watch_operation(client: Client, operation: Operation, until: float, look: Callable[[], None]) -> Operation:
    """Poll an operation until it ends or the time is over, and look at its subject after each poll.

    It is asked for once even when no time is left: another one may have used it up.
    """
    look()
    while operation.state == "pending":
        is_over = time.monotonic() >= until
        operation = client.operation(operation.id, wait_s=0 if is_over else _STEP_S)
        if is_over:
            break
        if operation.state == "pending":
            look()
    return operation


def end_with(changes: Sequence[VmChanged], wait_s: int | None, show: Callable[[], None]) -> None:
    """Show changes, and raise what the command ends with; a single one that failed is told by its error alone."""
    found = [failure_of(one.operation, one.vm) for one in changes] if wait_s is not None else []
    failures = [error for error in found if error is not None]
    if not failures or len(changes) > 1:
        show()
    if failures:
        failures.sort(key=lambda error: error.exit_code)  # a no beats what may still come true
        if failures[1:]:
            failures[0].message += f" (and {len(failures) - 1} more of {len(changes)})"
        raise failures[0]


def failure_of(operation: Operation, vm: Vm | None) -> HostlerError | None:
    """Return what a command should end with that waited for an operation; None where it is done."""
    from hostler.control.client.errors import OperationFailedError, StillUnderWayError

    what = f"{operation.kind} of {vm.project}/{vm.name}" if vm is not None else f"operation {operation.id}"
    if operation.state == "failed":
        hint = f"'hostler vm explain {vm.project}/{vm.name}' may say more" if vm is not None else "look at its subject"
        return OperationFailedError(f"{what} failed: {operation.error or 'no reason was given'}", hint=hint)
    if operation.state == "pending" and vm is not None and vm.state == "pending" and vm.why:
        hint = f"it goes on waiting for room; 'hostler vm explain {vm.project}/{vm.name}' says what would help"
        return OperationFailedError(f"{vm.project}/{vm.name} is not placed: {vm.why}", hint=hint)
    if operation.state == "pending":
        state = f" (it is {vm.state})" if vm is not None else ""
        hint = f"it goes on; 'hostler operation wait {operation.id}' waits for it"
        return StillUnderWayError(f"{what} is still under way{state}", hint=hint)
    return None


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Show what goes on in one line of a terminal, which is gone at the end; elsewhere nothing is shown."""
    shown = ""
    is_terminal = sys.stderr.isatty()

    def show(text: str) -> None:
        nonlocal shown
        text = printable(text)
        if is_terminal and text != shown:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            shown = text

    try:
        yield show
    finally:
        if is_terminal and shown:
            click.echo("\r\x1b[K", nl=False, err=True)
