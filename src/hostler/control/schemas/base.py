"""Base classes of requests and responses, pages of lists, problems, health."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from hostler.config.entries import means
from hostler.control.vms.names import NAME_PATTERN

__all__ = [
    "Health",
    "Labels",
    "Name",
    "Nothing",
    "Page",
    "Problem",
    "ProblemCause",
    "RequestSchema",
    "ResponseSchema",
    "Word",
]

Item = TypeVar("Item")


class RequestSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of request bodies: an unknown field is rejected by name."""


class ResponseSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Base of response bodies: every field is present."""


Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME_PATTERN)]
Word = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME_PATTERN)]
Labels = Annotated[dict[str, str], Meta(max_length=64)]


class Nothing(RequestSchema, frozen=True):
    """An empty object, or no body at all."""


class ProblemCause(ResponseSchema, frozen=True):
    """The cause of a problem, for programs: more specific than the problem's code."""

    code: Annotated[str, means("A stable word: missing, other_project, protected, moving or pinned; more may come.")]
    kind: Annotated[str, means("What it is about: vm, host, project, quota, gang, key, …")]
    name: Annotated[str, means("Its name or id. Of other_project: the project that the key is for.")]


class Problem(ResponseSchema, frozen=True):
    """An error as application/problem+json (RFC 9457). The meaning of a ``code`` never changes."""

    title: Annotated[str, means("What kind of problem it is, in a few words.")]
    status: Annotated[int, means("The HTTP status.")]
    code: Annotated[str, means("A stable word for programs.")]
    detail: Annotated[str, means("What is wrong this time.")] = ""
    hint: Annotated[str, means("What to do about it.")] = ""
    type: Annotated[str, means("Where the code is described.")] = "about:blank"
    instance: Annotated[str, means("The requested path.")] = ""
    request_id: Annotated[str, means("The same as in the header X-Request-Id, and in the service's log.")] = ""
    decision: Annotated[
        dict[str, Any] | None, means("Why a VM was placed nowhere: the object of 'hostler explain -o json'.")
    ] = None
    cause: Annotated[ProblemCause | None, means("What is behind it, where programs can act on that.")] = None


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """A part of a list, oldest first."""

    items: list[Item]
    next: Annotated[str, means("What to send as after for the next page. Empty: this is the last.")] = ""


class Health(ResponseSchema, frozen=True):
    """The health of the service."""

    status: Literal["ok", "starting", "unavailable"]
    is_leader: bool = False
    leader: str = ""
    seq: int = 0
    why: str = ""
