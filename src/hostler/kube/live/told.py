"""What a scheduler's pages answer, checked: at an address that somebody gave there may be anything.

Only what the commands rely on is asked for, so that older and newer schedulers are understood too. Used by ``via``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.live.planning import Plan
from hostler.model import Explanation

__all__ = ["read_told"]


class _Row(msgspec.Struct):
    namespace: str
    name: str
    state: str
    priority: int
    age_s: int | None
    attempts: int | None
    next_try: str | None
    nominated: str | None
    reason: str | None


class _Queue(msgspec.Struct):
    pods: list[_Row]
    total: int


class _Told(msgspec.Struct):
    decision: dict[str, Any]
    notes: list[str] = []
    message: str | None = None


def read_told(path: str, body: bytes) -> dict[str, Any] | None:
    """Read what the page at a path answered; None where no scheduler would have."""
    try:
        data = msgspec.json.decode(body, type=dict[str, Any])
        _check(path, data)
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        return None
    return data


def _check(path: str, data: dict[str, Any]) -> None:
    """Raise where an answer has not the shape of its page's."""
    if path == "/v1/queue":
        msgspec.convert(data, _Queue)
    elif path == "/v1/plan":
        msgspec.convert(data, Plan)
    elif path.startswith("/v1/explain/"):
        decision = msgspec.convert(data, _Told).decision
        msgspec.convert({**data, "decision": {**decision, "host": decision["host"] or ""}}, Explanation)
