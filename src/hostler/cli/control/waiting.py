"""``--wait``: follow a change until it has come true, and say meanwhile how far it is and what is in the way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.control.asking import DURATIONS, seconds_of
from hostler.cli.control.progress_line import Progress, progress_line, said_when_interrupted
from hostler.cli.control.vm_fields import why_text

if TYPE_CHECKING:
    from hostler.agent.messages import Trouble
    from hostler.control.api.shapes import Operation, Vm, VmChanged
    from hostler.control.client import Client
    from hostler.errors import HostlerError

__all__ = [
    "WAIT_S", "WaitingCommand", "WatchedVm", "end_with", "follow", "operation_failure", "wait_option",
    "watch_operation", "what_goes_on",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

WAIT_S = 300
_STEP_S = 1  # of one long poll: as often the state is looked at
# Also what is no duration of ours, such as 5min or 2d: it is refused as one, and not looked for as a VM.
_UNITS = "ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?"
_SECONDS = re.compile(rf"-?[0-9]+(\.[0-9]+)?({_UNITS})?([0-9]+(m|s))?")
_TAKEN_FOR_NAME = "hostler.after_wait"  # in a command's context: the word after a bare --wait


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
                if not after.startswith("-"):
                    ctx.meta[_TAKEN_FOR_NAME] = after
        try:
            return super().parse_args(ctx, words)
        except click.UsageError as error:
            if type(error) is click.UsageError and (taken := ctx.meta.get(_TAKEN_FOR_NAME)):  # one word too many
                seconds_of("--wait", taken)
            raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run it; where nothing has the name that follows --wait, say that a duration could have stood there."""
        from hostler.errors import UnknownNameError

        try:
            return super().invoke(ctx)
        except UnknownNameError as error:
            taken = ctx.meta.get(_TAKEN_FOR_NAME)
            if taken and taken in error.message:
                error.hint = f"{error.hint}; if {taken!r} was to say how long, give --wait {DURATIONS}"
            raise


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
    found = list(changes)
    with said_when_interrupted(lambda: _what_goes_on(found)), progress_line() as progress:
        for at, change in enumerate(changes):
            found[at] = _follow_one(client, change, until, progress)
    return found


def _what_goes_on(changes: Sequence[VmChanged]) -> str:
    """Say what goes on although nobody waits for it any more, and how to look at it; nothing where all is over."""
    pending = [one for one in changes if one.operation.state == "pending"]
    if not pending:
        return ""
    first, more = pending[0], len(pending) - 1
    rest = f"; {more} more do too: 'hostler operation list -A --state pending' shows all" if more else ""
    return f"{what_goes_on(first.operation, first.vm)}{rest}"


def what_goes_on(operation: Operation, vm: Vm | None) -> str:
    """Say that an operation goes on without anybody who waits, how to look at it, and how to wait for it again."""
    name = f"{vm.project}/{vm.name}" if vm is not None else ""
    what = f"{operation.kind} of {name}" if vm is not None else f"operation {operation.id} ({operation.kind})"
    look = f"hostler vm get {name}" if vm is not None else f"hostler operation get {operation.id}"
    return f"{what} goes on; '{look}' shows how far it is, 'hostler operation wait {operation.id}' waits for it"


def _follow_one(client: Client, change: VmChanged, until: float, progress: Progress) -> VmChanged:
    import msgspec

    watched = WatchedVm(client, change.vm, progress, of_before=change.vm.trouble)
    operation = watch_operation(client, change.operation, until, watched.look)
    watched.refresh()
    return msgspec.structs.replace(change, vm=watched.vm, operation=operation)


class WatchedVm:
    """A VM that is waited for: ``vm`` is how it was seen last. What is in the way is told once, and when it changes.

    ``of_before`` is the trouble that its host had before the change that is waited for.
    """

    def __init__(self, client: Client, vm: Vm, progress: Progress, of_before: Trouble | None = None) -> None:
        self.vm = vm
        self._of_before = of_before
        self._client = client
        self._progress = progress
        self._told = ""

    def refresh(self) -> bool:
        """Ask how it is; return whether it is still there."""
        from hostler.control.client.errors import UnknownThereError

        try:
            self.vm = self._client.vms.get(self.vm.id)
        except UnknownThereError:
            return False
        return True

    def look(self) -> None:
        """Say how it is, and what is in the way if that was not said yet."""
        if not self.refresh():
            self._progress.show(f"{self.vm.name}: gone")
            return
        vm, why = self.vm, self._why()
        if why and why != self._told:
            self._told = why
            self._progress.tell(f"{vm.project}/{vm.name} is {vm.state}: {why}")
        self._progress.show(f"{vm.name}: {vm.state}" + (f" on {vm.host}" if vm.host else ""))

    def _why(self) -> str:
        """Say what is in the way; not what its host gave up before, or what kept it from running when it is to end."""
        trouble = self.vm.trouble
        if trouble is None or trouble != self._of_before:
            self._of_before = None
            return why_text(self.vm)
        is_over = trouble.kind == "permanent" or self.vm.power in ("stopped", "absent")
        return self.vm.why if is_over else why_text(self.vm)


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
    found = [_failure_of(one.operation, one.vm) for one in changes] if wait_s is not None else []
    failures = [error for error in found if error is not None]
    if not failures or len(changes) > 1:
        show()
    if failures:
        failures.sort(key=lambda error: error.exit_code)  # a no beats what may still come true
        if failures[1:]:
            failures[0].message += f" (and {len(failures) - 1} more of {len(changes)})"
        raise failures[0]


def _failure_of(operation: Operation, vm: Vm) -> HostlerError | None:
    """Return what a command should end with that waited for a change of a VM; None where it is done."""
    from hostler.control.client.errors import OperationFailedError

    if operation.state == "pending" and vm.state == "pending" and vm.why:
        hint = f"it goes on waiting for room; 'hostler vm explain {vm.project}/{vm.name}' says what would help"
        return OperationFailedError(f"{vm.project}/{vm.name} is not placed: {vm.why}", hint=hint)
    return operation_failure(operation, vm)


def operation_failure(operation: Operation, vm: Vm | None) -> HostlerError | None:
    """Return what is wrong with an operation that was waited for, about this VM if it is about one; None if nothing."""
    from hostler.control.client.errors import OperationFailedError, StillUnderWayError

    what = f"{operation.kind} of {vm.project}/{vm.name}" if vm is not None else f"operation {operation.id}"
    if operation.state == "failed":
        look = f"'hostler operation get {operation.id}' shows what it is about"
        hint = _where_to_look(vm) if vm is not None else look
        return OperationFailedError(f"{what} failed: {operation.error or 'no reason was given'}", hint=hint)
    if operation.state == "pending":
        why = why_text(vm) if vm is not None else ""
        state = f" (it is {vm.state}{f': {why}' if why else ''})" if vm is not None else ""
        hint = f"it goes on; 'hostler operation wait {operation.id}' waits for it"
        return StillUnderWayError(f"{what} is still under way{state}", hint=hint)
    return None


def _where_to_look(vm: Vm) -> str:
    """Say where more is to be learned of a change that failed: an explanation knows of places, and of nothing else."""
    name = f"{vm.project}/{vm.name}"
    if vm.state == "pending":
        return f"it waits for room; 'hostler vm explain {name}' says what would help"
    if vm.state == "failed":
        return f"'hostler vm explain {name}' says what to do about it, 'hostler vm events {name}' what happened"
    return f"it is {vm.state}; 'hostler vm events {name}' says what happened"
