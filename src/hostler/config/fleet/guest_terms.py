"""What a guest says about other guests in a fleet file, to the model: selectors, terms, spreading, ports, its gang.

Used by :mod:`hostler.config.fleet.entries` and :mod:`hostler.config.fleet.tenancy`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from hostler.config.documents import Document
from hostler.config.entries import check_name
from hostler.config.fleet.constraints import read_expression
from hostler.config.fleet.file_terms import (
    GuestTermEntry,
    PortEntry,
    SelectorEntry,
    SpreadEntry,
    WeightedGuestTermEntry,
)
from hostler.config.key_paths import Path, quote
from hostler.config.strict import invalid
from hostler.model import Expression, GuestTerm, HostPort, Selector, Spread, WeightedGuestTerm

__all__ = [
    "EXPRESSIONS", "check_namespace", "read_gang_name", "read_guest_term", "read_guest_terms", "read_ports",
    "read_selector", "read_spreads", "read_weighted_guest_terms",
]  # fmt: skip

EXPRESSIONS = "expressions"  # the key of a selector under which a list of requirements may stand


def read_selector(document: Document, path: Path, entry: SelectorEntry | UnsetType) -> Selector | None:
    """Read a selector: labels in the order of their names, then the expressions."""
    if entry is UNSET:
        return None
    found: list[Expression] = []
    for key, value in sorted(entry.items()):
        if isinstance(value, str):
            if not key:
                raise invalid(document, (*path, key), "is a label without a key", hint="name the label")
            found.append(Expression(key, "In", (value,)))
        elif key == "matchExpressions":
            raise invalid(document, (*path, key), "is called otherwise here", hint=f"write {EXPRESSIONS!r} instead")
        elif key != EXPRESSIONS:
            raise invalid(
                document,
                (*path, key),
                "must be a string, not a list",
                hint=f"several values: {EXPRESSIONS}: [{{key: {key}, operator: In, values: [...]}}]",
            )
    listed = entry.get(EXPRESSIONS, "")
    for index, one in enumerate(() if isinstance(listed, str) else listed):
        found.append(read_expression(document, (*path, EXPRESSIONS, index), one))
    return Selector(tuple(found))


def read_guest_term(document: Document, path: Path, entry: GuestTermEntry) -> GuestTerm:
    """Read one term about other guests."""
    _check_topology(document, path, entry.topology)
    for index, namespace in enumerate(entry.namespaces):
        check_namespace(document, (*path, "namespaces", index), namespace)
    return GuestTerm(
        entry.topology,
        read_selector(document, (*path, "selector"), entry.selector),
        tuple(entry.namespaces),
        read_selector(document, (*path, "namespace_selector"), entry.namespace_selector),
    )


def read_guest_terms(document: Document, path: Path, entries: Sequence[GuestTermEntry]) -> tuple[GuestTerm, ...]:
    """Read required terms."""
    return tuple(read_guest_term(document, (*path, index), entry) for index, entry in enumerate(entries))


def read_weighted_guest_terms(
    document: Document, path: Path, entries: Sequence[WeightedGuestTermEntry]
) -> tuple[WeightedGuestTerm, ...]:
    """Read preferred terms."""
    return tuple(
        WeightedGuestTerm(entry.weight, read_guest_term(document, (*path, index, "term"), entry.term))
        for index, entry in enumerate(entries)
    )


def read_spreads(document: Document, path: Path, entries: Sequence[SpreadEntry]) -> tuple[Spread, ...]:
    """Read the spread constraints of a guest."""
    found: list[Spread] = []
    for index, entry in enumerate(entries):
        here = (*path, index)
        _check_topology(document, here, entry.topology)
        if entry.min_domains > 1 and not entry.is_hard:
            raise invalid(document, (*here, "min_domains"), "counts only with is_hard", hint="remove one of the two")
        found.append(
            Spread(
                entry.topology,
                entry.max_skew,
                read_selector(document, (*here, "selector"), entry.selector),
                entry.is_hard,
                entry.min_domains,
                entry.honor_affinity,
                entry.honor_taints,
            )
        )
    return tuple(found)


def read_ports(document: Document, path: Path, entries: Sequence[int | PortEntry]) -> tuple[HostPort, ...]:
    """Read the ports of the host that a guest takes; a guest cannot take one twice."""
    ports: list[HostPort] = []
    for index, entry in enumerate(entries):
        port = HostPort(entry) if isinstance(entry, int) else HostPort(entry.port, entry.protocol, entry.address)
        if port in ports:
            raise invalid(document, (*path, index), f"names port {port.text()} twice", hint="name each port once")
        ports.append(port)
    return tuple(ports)


def read_gang_name(document: Document, path: Path, text: str, namespace: str) -> str:
    """Return the key of the gang that a guest or a reservation names, or nothing."""
    if not text:
        return ""
    parts = text.split("/")
    if len(parts) > 2:
        raise invalid(document, path, f"is {quote(text)}", hint="write NAME, or NAMESPACE/NAME")
    for part in parts:
        check_name(document, path, part)
    return text if len(parts) == 2 else f"{namespace}/{text}"


def check_namespace(document: Document, path: Path, name: str) -> None:
    """Reject what cannot be the name of a namespace."""
    check_name(document, path, name)
    if "/" in name:
        raise invalid(document, path, f"is {quote(name)}", hint="a namespace has no '/'")


def _check_topology(document: Document, path: Path, topology: str) -> None:
    if not topology:
        raise invalid(document, (*path, "topology"), "is empty", hint="name a label of hosts, such as zone")
