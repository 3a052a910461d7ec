"""``--wait``: the option, and the progress of a change until it is done.

Progress goes to standard error: one line that is overwritten, and lines that stay. The client does the waiting.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.control.options import DURATIONS, seconds_of
from hostler.cli.output.terminal import note, printable

if TYPE_CHECKING:
    from hostler.agent.messages import Trouble
    from hostler.control.client import Client
    from hostler.control.schemas import Operation, Vm, VmChanged

__all__ = [
    "WAIT_S",
    "Progress",
    "WaitingCommand",
    "WatchedVm",
    "end_with",
    "follow",
    "progress_line",
    "report_if_interrupted",
    "unfinished_text",
    "wait_option",
]  # fmt: skip

_CLEAR = "\r\x1b[K"


class Progress:
    """Writes to standard error; results go to standard output."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Overwrite the progress line; nothing if standard error is not a terminal."""
        if not self._is_terminal:
            return
        text = printable(text)[: shutil.get_terminal_size().columns - 1]  # of a broken line only the end could go
        if text != self._shown:
            click.echo(f"{_CLEAR}{text}", nl=False, err=True)
            self._shown = text

    def tell(self, text: str) -> None:
        """Write a line that stays, on a terminal and elsewhere."""
        self.clear()
        note(text, label="")

    def clear(self) -> None:
        """Remove the progress line."""
        if self._shown:
            click.echo(_CLEAR, nl=False, err=True)
            self._shown = ""


@contextmanager
def progress_line() -> Iterator[Progress]:
    """Show progress. The progress line is removed at the end; other lines stay."""
    progress = Progress()
    try:
        yield progress
    finally:
        progress.clear()


@contextmanager
def report_if_interrupted(text: Callable[[], str]) -> Iterator[None]:
    """Say what continues in the background if the user interrupts the waiting."""
    try:
        yield
    except KeyboardInterrupt:
        if goes_on := text():
            note(goes_on, label="interrupted: ")
        raise


F = TypeVar("F", bound=Callable[..., Any])

WAIT_S = 300
# Also what is no duration of ours, such as 5min or 2d: it is refused as one, and not looked for as a VM.
_UNITS = "ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?"
_SECONDS = re.compile(rf"-?[0-9]+(\.[0-9]+)?({_UNITS})?([0-9]+(m|s))?")
_TAKEN_FOR_NAME = "hostler.after_wait"  # in a command's context: the word after a bare --wait


class WaitingCommand(click.Command):
    """A command whose ``--wait`` needs no number, even before a name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare ``--wait`` its default: click would take the next word for its value."""
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        for at, word in enumerate(words[:end]):
            after = words[at + 1] if at + 1 < len(words) else ""
            if word == "--wait" and not _SECONDS.fullmatch(after):
                words[at] = f"--wait={WAIT_S}"
                if not after.startswith("-"):
                    ctx.meta[_TAKEN_FOR_NAME] = after
        try:
            return super().parse_args(ctx, words)
        except click.UsageError as error:
            if type(error) is click.UsageError and (taken := ctx.meta.get(_TAKEN_FOR_NAME)):  # one word too many
                seconds_of("--wait", taken)
            raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run it. If no object has the name after --wait, the hint says that a duration may stand there."""
        from hostler.errors import UnknownNameError

        try:
            return super().invoke(ctx)
        except UnknownNameError as error:
            taken = ctx.meta.get(_TAKEN_FOR_NAME)
            if taken and taken in error.message:
                error.hint = f"{error.hint}; if {taken!r} was to say how long, give --wait {DURATIONS}"
            raise


def wait_option(help_text: str = "Wait until it is done") -> Callable[[F], F]:
    """Add ``--wait [SECONDS]``, for a command of class WaitingCommand."""
    return click.option(
        "--wait",
        "wait_s",
        metavar="[SECONDS]",
        default=None,
        callback=lambda ctx, parameter, value: None if value is None else seconds_of("--wait", value),
        help=f"{help_text}, at most this long (such as 90 or 5m; {WAIT_S} by default).",
    )


def follow(client: Client, changes: Sequence[VmChanged], wait_s: int | None) -> list[VmChanged]:
    """Wait for changes of VMs in turn, all within the same time. Returns the last state of each.

    A failed change does not stop the others. ``end_with`` reports all of them.
    """
    if wait_s is None:
        return list(changes)
    until = time.monotonic() + wait_s
    found = list(changes)
    with report_if_interrupted(lambda: _unfinished_texts(found)), progress_line() as progress:
        for at, change in enumerate(changes):
            found[at] = _follow_one(client, change, until, progress)
    return found


def _unfinished_texts(changes: Sequence[VmChanged]) -> str:
    """Describe changes that continue without a waiting command, and how to follow them; empty if all are finished."""
    pending = [one for one in changes if one.operation.state == "pending"]
    if not pending:
        return ""
    first, more = pending[0], len(pending) - 1
    rest = f"; {more} more continue too: 'hostler operation list -A --state pending' shows all" if more else ""
    return f"{unfinished_text(first.operation, first.vm)}{rest}"


def unfinished_text(operation: Operation, vm: Vm | None) -> str:
    """Describe an operation that continues, with the commands that show it and wait for it."""
    name = f"{vm.project}/{vm.name}" if vm is not None else ""
    what = f"{operation.kind} of {name}" if vm is not None else f"operation {operation.id} ({operation.kind})"
    look = f"hostler vm get {name}" if vm is not None else f"hostler operation get {operation.id}"
    return f"{what} continues; '{look}' shows the progress, 'hostler operation wait {operation.id}' waits for it"


def _follow_one(client: Client, change: VmChanged, until: float, progress: Progress) -> VmChanged:
    import msgspec

    from hostler.control.client.operations import watch_operation

    watched = WatchedVm(client, change.vm, progress, of_before=change.vm.trouble)
    operation = watch_operation(client, change.operation, until, watched.look)
    watched.refresh()
    return msgspec.structs.replace(change, vm=watched.vm, operation=operation)


class WatchedVm:
    """A VM that is waited for: ``vm`` is its last state. A new obstacle is reported once.

    ``of_before`` is the trouble that its host had before the change that is waited for.
    """

    def __init__(self, client: Client, vm: Vm, progress: Progress, of_before: Trouble | None = None) -> None:
        self.vm = vm
        self._of_before = of_before
        self._client = client
        self._progress = progress
        self._told = ""

    def refresh(self) -> bool:
        """Read the VM; return whether it still exists."""
        from hostler.control.client.errors import ServerNotFoundError

        try:
            self.vm = self._client.vms.get(self.vm.id)
        except ServerNotFoundError:
            return False
        return True

    def look(self) -> None:
        """Show the state of the VM, and report a new obstacle."""
        if not self.refresh():
            self._progress.show(f"{self.vm.name}: gone")
            return
        vm, why = self.vm, self._why()
        if why and why != self._told:
            self._told = why
            self._progress.tell(f"{vm.project}/{vm.name} is {vm.state}: {why}")
        self._progress.show(f"{vm.name}: {vm.state}" + (f" on {vm.host}" if vm.host else ""))

    def _why(self) -> str:
        """Return the obstacle. Trouble from before the change, or with running a VM that is to end, does not count."""
        trouble = self.vm.trouble
        if trouble is None or trouble != self._of_before:
            self._of_before = None
            return self.vm.blocker
        is_over = trouble.kind == "permanent" or self.vm.power in ("stopped", "absent")
        return self.vm.why if is_over else self.vm.blocker


def end_with(changes: Sequence[VmChanged], wait_s: int | None, show: Callable[[], None]) -> None:
    """Show changes, and raise the error of the command. A single failed change is reported by its error alone."""
    from hostler.control.client.operations import change_failure

    found = [change_failure(one.operation, one.vm) for one in changes] if wait_s is not None else []
    failures = [error for error in found if error is not None]
    if not failures or len(changes) > 1:
        show()
    if failures:
        failures.sort(key=lambda error: error.exit_code)  # a no beats what may still come true
        if failures[1:]:
            failures[0].message += f" (and {len(failures) - 1} more of {len(changes)})"
        raise failures[0]
