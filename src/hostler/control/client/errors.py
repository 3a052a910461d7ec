"""Problems that a control plane returns, as exceptions of the error tree.

A response in problem+json has a stable code, which becomes the ``code`` of the exception, whatever its class. There are
few classes: they tell what a caller can do, and determine the exit code of a command.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from hostler.control.schemas import Problem
from hostler.errors import Cause, ConflictError, HostlerError, InputError, UnavailableError, UnknownNameError

__all__ = [
    "UNREADABLE",
    "AnswerError",
    "NotAllowedError",
    "NotPlacedError",
    "OperationFailedError",
    "RejectedInputError",
    "ServerConflictError",
    "ServerNotFoundError",
    "ServerUnavailableError",
    "StillUnderWayError",
    "UnreachableError",
    "error_for_problem",
    "read_problem",
]  # fmt: skip

NOT_PLACED = "insufficient_resources"  # no host had room for a VM to be placed at once: a result, not a failure
_CONFLICTS = (409, 410, 412)
_CONFLICT_CODES = ("idempotency_mismatch",)
_LONGEST = 300
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # what reading JSON of a stranger may raise


class _ServerError(HostlerError):
    """An error that a server returned; ``problem`` is the whole response."""

    def __init__(self, problem: Problem) -> None:
        what = problem.detail or problem.title or f"the control plane answered {problem.status}"
        told = problem.cause
        cause = None if told is None else Cause(told.code, told.kind, told.name)
        super().__init__(what, hint=problem.hint, cause=cause)
        self.problem = problem
        if problem.code:
            vars(self)["code"] = problem.code  # the server's own word beats that of the class


class RejectedInputError(_ServerError, InputError):
    """The request is invalid."""

    code = "invalid_input"


class ServerNotFoundError(_ServerError, UnknownNameError):
    """The server has no such object, or the key may not see it."""

    code = "not_found"


class NotAllowedError(_ServerError):
    """The key is not accepted, or may not do this."""

    code = "forbidden"
    exit_code = 2


class ServerConflictError(_ServerError, ConflictError):
    """Another change was faster, or the state does not allow it."""

    code = "conflict"


class ServerUnavailableError(_ServerError, UnavailableError):
    """The server cannot do it now."""

    code = "unavailable"


class NotPlacedError(_ServerError):
    """The VM had to be placed at once, and no host has room. ``problem.decision`` says why."""

    code = NOT_PLACED
    exit_code: ClassVar[int] = 1


class OperationFailedError(HostlerError):
    """An accepted change failed."""

    code = "operation_failed"
    exit_code = 1


class StillUnderWayError(UnavailableError):
    """A change takes longer than the caller waits."""

    code = "still_under_way"


class UnreachableError(UnavailableError):
    """The server did not answer."""

    code = "server_unreachable"


class AnswerError(UnavailableError):
    """The response is not one of a control plane."""

    code = "odd_answer"
    retryable = False


def read_problem(status: int, body: bytes) -> Problem:
    """Parse a problem. For any other response (such as a proxy's page) keep its status and the start of its text."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(body, type=Problem), status=status)
    except UNREADABLE:
        text = " ".join(body[:_LONGEST].decode("utf-8", "replace").split())
        detail = f"the server answered {status}" + (f": {text}" if text and "<" not in text else "")
        return Problem(title="", status=status, code="", detail=detail, hint="is this the address of a control plane?")


def error_for_problem(problem: Problem) -> HostlerError:
    """Return the exception for a problem, by its code or else its status."""
    status = problem.status
    if problem.code == NOT_PLACED:
        return NotPlacedError(problem)
    if status in (401, 403):
        return NotAllowedError(problem)
    if status == 404:
        return ServerNotFoundError(problem)
    if status in _CONFLICTS or problem.code in _CONFLICT_CODES:
        return ServerConflictError(problem)
    if status == 429 or status >= 500:
        return ServerUnavailableError(problem)
    return RejectedInputError(problem)
