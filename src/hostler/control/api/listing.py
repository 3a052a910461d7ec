"""Query parameters that several routes share, and headers of answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hostler.config.entries import means
from hostler.control.store.labels import Labels
from hostler.errors import InputError

__all__ = [
    "CREATE", "DELETE", "EDIT", "GET", "MOST", "After", "LabelTexts", "Limit", "PageQuery", "ProjectQuery", "Query",
    "Short", "Wait", "WaitQuery", "etag", "read_labels",
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
    """How long to wait."""

    wait: Wait = 0.0


def etag(version: int) -> dict[str, str]:
    """Return the header that names a version."""
    return {"ETag": f'"{version}"'}


def read_labels(texts: list[str]) -> Labels:
    """Read ``key=value`` texts; InputError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"label: {text[:60]!r} is no label", hint="write key=value")
        found[key] = value
    return tuple(sorted(found.items()))
