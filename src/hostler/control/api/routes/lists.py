"""Query parameters and response headers that several routes share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hostler.config.entries import means
from hostler.control.store.rows.labels import Labels
from hostler.errors import InputError

__all__ = [
    "CREATE", "DELETE", "EDIT", "GET", "MOST", "After", "LabelTexts", "Limit", "PageQuery", "PastQuery",
    "ProjectQuery", "Query", "Short", "Wait", "WaitQuery", "etag", "read_labels",
]  # fmt: skip

MOST = 500
MOST_LABELS = 16  # each is one more subquery

Limit = Annotated[int, Meta(ge=1, le=MOST), means(f"How many at most, up to {MOST}.")]
After = Annotated[str, Meta(max_length=1000), means("What the page before gave as next.")]
Wait = Annotated[float, Meta(ge=0, le=60), means("Wait so many seconds, up to 60, for the operation to end.")]
Short = Annotated[str, Meta(max_length=253)]
LabelTexts = Annotated[
    list[Short], Meta(max_length=MOST_LABELS), means(f"key=value, up to {MOST_LABELS} times: all must match.")
]


# What routes for things by their name have in common.
CREATE: dict[str, Any] = {"is_repeatable": True, "has_etag": True, "refusals": (404, 409)}
GET: dict[str, Any] = {"has_etag": True, "refusals": (404,)}
EDIT: dict[str, Any] = {"has_match": True, "has_etag": True, "refusals": (404, 409)}
DELETE: dict[str, Any] = {"answers": {204: None}, "has_match": True, "refusals": (404, 409)}


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of query parameters."""


class PageQuery(Query, frozen=True):
    """A page of a list."""

    limit: Limit = 100
    after: After = ""


class ProjectQuery(PageQuery, frozen=True):
    """A page of a list, of one project."""

    project: Annotated[Short, means("Only of this project.")] = ""


class WaitQuery(Query, frozen=True):
    """How long to wait for the operation."""

    wait: Wait = 0.0


class PastQuery(Query, frozen=True):
    """Filters for events, whatever they are about."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1), means("Those after this number.")] = 0
    limit: Annotated[Limit, means("With kind, a page may have fewer.")] = 100
    since: Annotated[str, Meta(max_length=40), means("Only since this time, RFC 3339.")] = ""
    tail: Annotated[
        Annotated[int, Meta(ge=0, le=MOST)] | None,
        means("Only so many, the last. With kind they are looked for among the 10,000 newest. Beats after and limit."),
    ] = None
    kind: Annotated[
        list[Short],
        Meta(max_length=MOST_LABELS),
        means("Only of this kind, such as vm.placed, or vm for all kinds of VMs; up to 16 times."),
    ] = msgspec.field(default_factory=list)


def etag(version: int) -> dict[str, str]:
    """Return the ETag header of a version."""
    return {"ETag": f'"{version}"'}


def read_labels(texts: list[str]) -> Labels:
    """Parse ``key=value`` texts; InputError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"label: {text[:60]!r} is not a label", hint="write key=value")
        found[key] = value
    return tuple(sorted(found.items()))
