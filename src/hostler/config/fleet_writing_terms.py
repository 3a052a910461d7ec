"""Selectors, terms, taints and ports to plain values, the inverse of how a fleet file is read.

Used by :mod:`hostler.config.fleet_writing` and :mod:`hostler.config.fleet_writing_tenancy`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.config.fleet_guest_terms import EXPRESSIONS
from hostler.model import Expression, GuestTerm, HostPort, Selector, Spread, Taint, Term, Toleration

__all__ = [
    "with_selector",
    "without_empty",
    "write_guest_term",
    "write_port",
    "write_spread",
    "write_taint",
    "write_term",
    "write_toleration",
]


def without_empty(**values: object) -> dict[str, object]:
    """Leave out what is empty, zero or false: all defaults are."""
    return {key: value for key, value in values.items() if value}


def with_selector(entry: dict[str, object], key: str, selector: Selector | None) -> dict[str, object]:
    """Add a selector to an entry; one of everything is empty and yet not the same as none."""
    return entry if selector is None else {**entry, key: _write_selector(selector)}


def write_term(term: Term) -> dict[str, object]:
    """Write a term about hosts."""
    return without_empty(expressions=_write_expressions(term.expressions), names=_write_names(term.names))


def write_guest_term(term: GuestTerm) -> dict[str, object]:
    """Write a term about guests."""
    entry = with_selector({"topology": term.topology}, "selector", term.selector)
    if term.namespaces:
        entry["namespaces"] = list(term.namespaces)
    return with_selector(entry, "namespace_selector", term.namespace_selector)


def write_spread(spread: Spread) -> dict[str, object]:
    """Write a spread constraint; what is as usual is left out."""
    entry = with_selector({"topology": spread.topology}, "selector", spread.selector)
    usual = Spread(spread.topology)
    for key in ("max_skew", "is_hard", "min_domains", "honor_affinity", "honor_taints"):
        if getattr(spread, key) != getattr(usual, key):
            entry[key] = getattr(spread, key)
    return entry


def write_port(port: HostPort) -> object:
    """Write a port of the host, as a number where that says it all."""
    if port == HostPort(port.port):
        return port.port
    return without_empty(port=port.port, protocol=port.protocol, address=port.address)


def write_taint(taint: Taint) -> dict[str, object]:
    """Write a taint."""
    return without_empty(key=taint.key, value=taint.value, effect=taint.effect)


def write_toleration(one: Toleration) -> dict[str, object]:
    """Write a toleration."""
    return without_empty(key=one.key, operator=one.operator, value=one.value, effect=one.effect)


def _write_selector(selector: Selector) -> dict[str, object]:
    """Write labels alone in the short form, when reading it gives the same order."""
    keys = [one.key for one in selector.expressions]
    is_short = all(one.operator == "In" and len(one.values) == 1 for one in selector.expressions)
    if is_short and keys == sorted(set(keys)):
        return {one.key: one.values[0] for one in selector.expressions}
    return {EXPRESSIONS: _write_expressions(selector.expressions)}


def _write_expressions(expressions: Sequence[Expression]) -> list[object]:
    return [without_empty(key=one.key, operator=one.operator, values=list(one.values)) for one in expressions]


def _write_names(names: Sequence[Expression]) -> list[object]:
    if len(names) == 1 and names[0].operator == "In":
        return list(names[0].values)
    return [{"operator": one.operator, "values": list(one.values)} for one in names]
