"""The messages of kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1).

The Go types have no JSON tags, so the field names are exactly these. Go reads names in any case, and so do we: some
extenders answer ``nodeNames``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hostler.errors import InputError

__all__ = [
    "ExtenderArgs", "ExtenderBindingArgs", "ExtenderBindingResult", "ExtenderFilterResult", "ExtenderPreemptionArgs",
    "ExtenderPreemptionResult", "HostPriority", "MetaPod", "MetaVictims", "NodeList", "Victims", "read_message",
    "read_priorities",
]  # fmt: skip

Json = dict[str, Any]


class NodeList(msgspec.Struct):
    """Whole nodes, unchanged."""

    items: list[Json] | None = None


class ExtenderArgs(msgspec.Struct):
    """A pod and candidate nodes: whole nodes, or names for an extender with its own cache."""

    Pod: Json | None = None
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None

    def names(self) -> list[str]:
        """Return the names of the nodes; nodes without a name are left out."""
        if self.NodeNames is not None:
            return self.NodeNames
        items = (self.Nodes.items if self.Nodes is not None else None) or []
        return [name for name in map(name_of, items) if name]


class ExtenderFilterResult(msgspec.Struct):
    """The nodes that are left, and why the others are not."""

    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] | None = None
    FailedAndUnresolvableNodes: dict[str, str] | None = None
    Error: str = ""


class HostPriority(msgspec.Struct):
    """A score from 0 to 10."""

    Host: str
    Score: int


class MetaPod(msgspec.Struct):
    """A victim by its uid."""

    UID: str


class MetaVictims(msgspec.Struct):
    """The victims on a node, by uid."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(msgspec.Struct):
    """The victims on a node, as whole pods."""

    Pods: list[Json] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(msgspec.Struct):
    """Nodes where preemption would help."""

    Pod: Json | None = None
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(msgspec.Struct):
    """The nodes that the extender accepts."""

    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderBindingArgs(msgspec.Struct):
    """The pod to bind and its node."""

    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class ExtenderBindingResult(msgspec.Struct):
    """The outcome of a bind; empty on success."""

    Error: str = ""


Message = TypeVar("Message", bound=msgspec.Struct)


def read_message(body: bytes, into: type[Message]) -> Message:
    """Read a message; its own field names may be in any case."""
    try:
        data = msgspec.json.decode(body, type=dict[str, Any])
        names = {field.lower(): field for field in into.__struct_fields__}
        known = {names[key.lower()]: value for key, value in data.items() if key.lower() in names}
        return msgspec.convert({key: value for key, value in known.items() if value is not None}, into)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a valid message of kind {into.__name__}: {error}") from error


def read_priorities(body: bytes) -> list[HostPriority]:
    """Read the response to a request for scores; null means none."""
    try:
        items = msgspec.json.decode(body, type=list[dict[str, Any]] | None) or []
        lowered = [{key.lower(): value for key, value in item.items()} for item in items]
        pairs = [{"Host": item.get("host"), "Score": item.get("score", 0)} for item in lowered]
        return msgspec.convert(pairs, list[HostPriority])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a valid list of scores: {error}") from error


def name_of(item: Json) -> str:
    """Return the name in an object's metadata, or an empty string."""
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
