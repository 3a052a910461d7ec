"""Fault rates as plain data; ``faults`` plays them."""

from __future__ import annotations

import msgspec

from hostler.runtime.transport import Request

__all__ = ["FaultRates", "request_kind"]


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities between 0 and 1: of each request first, then of each watch or each batch of its events."""

    refused: float = 0.0  # no connection: nothing arrived, and the sender knows it
    lost: float = 0.0  # nothing arrived, and the sender does not know
    unanswered: float = 0.0  # done, but the answer never comes
    delayed: float = 0.0  # the server takes long, perhaps longer than the request allows
    doubled: float = 0.0  # it arrives twice, and either answer comes back
    conflicts: float = 0.0  # a write is refused with 409 although nothing is in its way
    throttled: float = 0.0  # 429 with Retry-After
    failed_before: float = 0.0  # 500, 503 or 504, and nothing was done
    failed_after: float = 0.0  # 500, 503 or 504, and it was done
    stale: float = 0.0  # a list shows an earlier moment, as far as the version that it names allows

    cut: float = 0.0  # of each batch: the connection ends in the middle of a line
    stalled: float = 0.0  # of each batch: nothing comes any more, and the connection stays open
    late: float = 0.0  # of each batch: it comes up to late_s later
    expired: float = 0.0  # of each watch: 410, as an answer or as an event
    rewound: float = 0.0  # of each watch: it begins earlier than asked, so that events come again
    unmarked: float = 0.0  # of each bookmark: dropped

    outages: float = 0.0  # of each request: an outage of the whole server begins
    outage_s: float = 30.0  # how long one lasts, at most
    late_s: float = 5.0
    retry_after_s: int = 1


def request_kind(request: Request) -> str:
    """Return the purpose of a request in one word."""
    if request.is_stream:
        return "watch"
    path = request.path.partition("?")[0]
    if "/leases" in path:
        return "lease"
    for ending in ("binding", "eviction", "status"):
        if path.endswith(f"/{ending}"):
            return ending
    if "/events" in path:
        return "event"
    return {"GET": "read", "POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}[request.method]
