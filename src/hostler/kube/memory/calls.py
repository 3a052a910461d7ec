"""Requests to the API server in memory: how a path is parsed, and the log of all requests.

The log contains, for every request, when it took effect and what its sender learned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from hostler.kube.memory.error_answers import bad_request, no_resource
from hostler.kube.memory.kinds import ServedKind

__all__ = ["LogEntry", "ParsedCall", "ResourceRoutes", "read_duration"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ParsedCall(msgspec.Struct, kw_only=True):
    """A parsed request."""

    method: str
    kind: ServedKind
    namespace: str
    name: str
    part: str
    query: dict[str, str]
    body: bytes
    content_type: str

    @property
    def is_watch(self) -> bool:
        """Return whether this is a watch."""
        return self.method == "GET" and self.query.get("watch", "") in ("1", "true") and not self.name

    @property
    def verb(self) -> str:
        """Return the verb as permissions name it."""
        if self.method == "GET":
            return "watch" if self.is_watch else "get" if self.name else "list"
        return "deletecollection" if self.method == "DELETE" and not self.name else _VERBS[self.method]

    @property
    def resource(self) -> str:
        """Return the resource as permissions name it."""
        return f"{self.kind.plural}/{self.part}" if self.part else self.kind.plural

    def decoded(self) -> Any:  # noqa: ANN401 - JSON
        """Return the decoded body."""
        try:
            return msgspec.json.decode(self.body) if self.body else {}
        except msgspec.DecodeError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


class ResourceRoutes:
    """The served resources, by path."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.kinds: dict[tuple[str, str], ServedKind] = {}  # by root and plural
        self._roots: set[str] = set()
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ServedKind) -> None:
        """Serve a resource."""
        self.kinds[kind.root, kind.plural] = kind
        self._roots.add(kind.root)

    def drop(self, kind: ServedKind) -> None:
        """Stop serving a resource."""
        self.kinds.pop((kind.root, kind.plural), None)
        self._roots = {root for root, _ in self.kinds}

    def served(self, root: str) -> list[ServedKind]:
        """Return the resources of a group and version."""
        return [kind for (place, _), kind in self.kinds.items() if place == root]

    def find(self, name: str) -> ServedKind:
        """Return a resource by its plural, or by plural.group if the plural is ambiguous."""
        plural, _, group = name.partition(".")
        for kind in self.kinds.values():
            if kind.plural == plural and (not group or kind.group == group):
                return kind
        raise KeyError(f"no resource {name} is served")

    def read(self, method: str, path: str, body: bytes, content_type: str) -> ParsedCall | None:
        """Parse a request; None for a path outside of all served groups."""
        place, _, query_text = path.partition("?")
        words = (unquote(place) if "%" in place else place).split("/")[1:]
        root_length = 3 if words[0] == "apis" else 2
        root = "/" + "/".join(words[:root_length])
        rest = words[root_length:]
        if not rest or root not in self._roots:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        kind = self.kinds.get((root, rest[0]))
        if kind is None or len(rest) > 3 or bool(namespace) > kind.is_namespaced:
            raise no_resource()
        name, part = (*rest[1:], "", "")[:2]
        if name and kind.is_namespaced and not namespace:
            raise no_resource()
        query = dict(parse_qsl(query_text, keep_blank_values=True)) if query_text else {}
        return ParsedCall(
            method=method,
            kind=kind,
            namespace=namespace,
            name=name,
            part=part,
            query=query,
            body=body,
            content_type=content_type,
        )


@lru_cache(maxsize=256)
def read_duration(text: str) -> float:
    """Parse a duration in Go's notation; return seconds."""
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{text}"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class LogEntry(msgspec.Struct, kw_only=True):
    """One request. Times are the clock's nanoseconds; None if the step was never reached."""

    number: int
    user: str
    agent: str
    method: str
    path: str
    body: bytes
    sent: int
    arrived: int | None = None
    deadline: int | None = None  # from here on the server does nothing more for it
    committed: int | None = None  # when it changed something
    version: int | None = None  # the version after that change
    status: int | None = None  # the server's decision
    told: int | None = None  # what the sender learned: a status, 0 for "it never arrived", None for nothing
    told_at: int | None = None
    call: ParsedCall | None = None

    def decoded(self) -> Any:  # noqa: ANN401 - JSON
        """Return the decoded body."""
        return msgspec.json.decode(self.body) if self.body else {}

    @property
    def is_bind(self) -> bool:
        """Return whether it is a binding of a pod."""
        return self.method == "POST" and self.path.partition("?")[0].endswith("/binding")
