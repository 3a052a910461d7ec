"""The exception tree and the stable error codes; imports nothing of ours.

::

    HostlerError              base: .code, .hint, .retryable, .exit_code, .retry_after_s
    ├─ InputError             a file, a flag or a value that can never be right
    │  ├─ QuantityError       an amount that does not parse, is negative or too large
    │  ├─ UnknownNameError    a policy, plugin, host or guest that is not declared
    │  └─ DuplicateNameError  two things that share a name which must be unique
    ├─ FactError              an event that no front could send, or that contradicts an earlier one
    │  └─ NamesFullError      a host, policy or reservation with names that no table has room for
    ├─ JournalError           a journal that cannot be read, or whose replay differs
    ├─ PluginError            a third party's plugin broke its contract
    ├─ UnavailableError       something outside does not answer; trying again may help
    ├─ ConflictError          another change came first; trying again may help
    └─ InternalError          a broken promise of ours: please report it

*Not placed* is never an exception: it is a :class:`hostler.model.Decision` with reasons. Codes are never
renamed or reused; ``docs/reference/errors.md`` lists them all.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

__all__ = [
    "Cause", "ConflictError", "DuplicateNameError", "FactError", "HostlerError", "InputError", "InternalError",
    "JournalError", "NamesFullError", "PluginError", "QuantityError", "UnavailableError", "UnknownNameError",
]  # fmt: skip


class Cause(NamedTuple):
    """What is behind an error, for programs: a stable word, finer than the error's code, and what it is about.

    ====================  ==================================================================
    ``missing``           there is no such thing, or not for this caller
    ``other_project``     the key is for this project, and another was meant
    ``protected``         it is protected from deletion
    ``moving``            it is moving to another host
    ``pinned``            it may only be on one host, and another was meant
    ====================  ==================================================================
    """

    code: str
    kind: str  # vm, host, project, …
    name: str


class HostlerError(Exception):
    """Base of all errors that Hostler raises on purpose."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 70
    retry_after_s: float | None = None  # how long the other side asked to be left alone, if it did
    # File and line in a plugin. Not part of the message: journals keep that, and a replay elsewhere must give the same.
    place: str = ""

    def __init__(self, message: str, *, hint: str = "", cause: Cause | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.cause = cause

    def located_message(self) -> str:
        """Return the message with the place in a plugin before it, if that is known."""
        return f"{self.place}: {self.message}" if self.place else self.message


class InputError(HostlerError):
    """A file, a flag or a value that can never be right."""

    code = "invalid_input"
    exit_code = 2


class QuantityError(InputError):
    """An amount that does not parse, is negative, or exceeds 2^62 units."""

    code = "invalid_quantity"


class UnknownNameError(InputError):
    """A policy, plugin, host or guest that is not declared."""

    code = "unknown_name"


class UnknownPluginError(UnknownNameError):
    """A policy names a plugin that this process does not have."""


class DuplicateNameError(InputError):
    """Two things share a name which must be unique."""

    code = "duplicate_name"


class FactError(HostlerError):
    """An event that no front could send, or that contradicts an earlier one of equal version."""

    code = "impossible_fact"
    exit_code = 2


class NamesFullError(FactError):
    """A host, policy or reservation with new names of resources or devices while others use up all room for names."""

    code = "names_full"


class JournalError(HostlerError):
    """A journal that cannot be read, or whose replay differs."""

    code = "journal"
    exit_code = 2


class PluginError(HostlerError):
    """A plugin of a third party broke its contract; ``plugin`` is its name, if that is known."""

    code = "plugin_contract"
    exit_code = 2
    plugin = ""


class UnavailableError(HostlerError):
    """Something outside does not answer."""

    code = "unavailable"
    retryable = True
    exit_code = 3


class ConflictError(HostlerError):
    """Another change of the same thing came first."""

    code = "conflict"
    retryable = True
    exit_code = 4


class InternalError(HostlerError):
    """A broken promise of ours."""

    code = "internal"
