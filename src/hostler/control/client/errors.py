"""What a control plane answers instead of what was asked for, as errors of our tree.

An answer in problem+json names a stable code; it is the ``code`` of the error that is raised, whatever class it has.
The classes are few: they say what a caller can do about it, and by that the exit code of a command.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from hostler.control.api.shapes import Problem
from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError, UnknownNameError

__all__ = [
    "UNREADABLE", "AnswerError", "NotAllowedError", "NotPlacedError", "OperationFailedError", "RefusedConflictError",
    "RefusedInputError", "RefusedUnavailableError", "StillUnderWayError",
    "UnknownThereError", "UnreachableError", "read_problem", "refusal",
]  # fmt: skip

NOT_PLACED = "insufficient_resources"  # asked to place a VM at once, nobody had room: that is an answer, no failure
_CONFLICTS = (409, 410, 412)
_CONFLICT_CODES = ("idempotency_mismatch",)
_LONGEST = 300
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # what reading JSON of a stranger may raise


class _Told(HostlerError):
    """An error that a server told; ``problem`` is all that it said."""

    def __init__(self, problem: Problem) -> None:
        what = problem.detail or problem.title or f"the control plane answered {problem.status}"
        super().__init__(what, hint=problem.hint)
        self.problem = problem
        if problem.code:
            vars(self)["code"] = problem.code  # the server's own word beats that of the class


class RefusedInputError(_Told, InputError):
    """The request can never be right."""

    code = "invalid_input"


class UnknownThereError(_Told, UnknownNameError):
    """There is no such thing on the server, or not for this key."""

    code = "not_found"


class NotAllowedError(_Told):
    """The key is not known, or may not do this."""

    code = "forbidden"
    exit_code = 2


class RefusedConflictError(_Told, ConflictError):
    """Something else was faster, or is in the way."""

    code = "conflict"


class RefusedUnavailableError(_Told, UnavailableError):
    """The server cannot do it now."""

    code = "unavailable"


class NotPlacedError(_Told):
    """The VM was to be placed at once or not at all, and no host has room. ``problem.decision`` says why."""

    code = NOT_PLACED
    exit_code: ClassVar[int] = 1


class OperationFailedError(HostlerError):
    """What was asked for was taken up, and did not come true."""

    code = "operation_failed"
    exit_code = 1


class StillUnderWayError(UnavailableError):
    """What was asked for goes on, for longer than somebody wanted to wait."""

    code = "still_under_way"


class UnreachableError(UnavailableError):
    """The server did not answer."""

    code = "server_unreachable"


class AnswerError(UnavailableError):
    """The server answered something that no control plane of ours would."""

    code = "odd_answer"
    retryable = False


def read_problem(status: int, body: bytes) -> Problem:
    """Read a refusal; what is none of ours (a proxy's page, say) keeps its status and the beginning of its text."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(body, type=Problem), status=status)
    except UNREADABLE:
        text = " ".join(body[:_LONGEST].decode("utf-8", "replace").split())
        detail = f"the server answered {status}" + (f": {text}" if text and "<" not in text else "")
        return Problem(title="", status=status, code="", detail=detail, hint="is this the address of a control plane?")


def refusal(problem: Problem) -> HostlerError:
    """Return the error for a refusal, by its code or else its status."""
    status = problem.status
    if problem.code == NOT_PLACED:
        return NotPlacedError(problem)
    if status in (401, 403):
        return NotAllowedError(problem)
    if status == 404:
        return UnknownThereError(problem)
    if status in _CONFLICTS or problem.code in _CONFLICT_CODES:
        return RefusedConflictError(problem)
    if status == 429 or status >= 500:
        return RefusedUnavailableError(problem)
    return RefusedInputError(problem)
