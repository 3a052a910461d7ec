"""Devices, and what a guest says about hosts, as a fleet file writes them, to the model.

Used by :mod:`hostler.config.fleet.entries`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hostler.config.documents import Document
from hostler.config.entries import check_name
from hostler.config.fleet.file import DeviceEntry, DeviceRequestEntry
from hostler.config.fleet.file_terms import ExpressionEntry, TaintEntry, TermEntry, TolerationEntry
from hostler.config.key_paths import Path, quote
from hostler.config.strict import invalid
from hostler.model import Device, DeviceRequest, Expression, Labels, Taint, Term, Toleration
from hostler.model.hosts import MAX_DEVICES

__all__ = ["HOST_NAME_KEY", "read_device_requests", "read_devices", "read_expression", "read_labels"]
__all__ += ["read_taints", "read_term", "read_tolerations"]

HOST_NAME_KEY = "metadata.name"  # the key by which the model's terms mean the host's own name

_INT64 = re.compile(r"[+-]?[0-9]{1,19}")


def read_labels(document: Document, path: Path, values: Mapping[str, str]) -> Labels:
    """Read labels; a key may not be empty."""
    if "" in values:
        raise invalid(document, (*path, ""), "is a label without a key", hint="name the label")
    return tuple(sorted(values.items()))


def read_devices(document: Document, path: Path, entries: Sequence[DeviceEntry]) -> tuple[Device, ...]:
    """Read a host's devices, one for each that is there."""
    devices: list[Device] = []
    for index, entry in enumerate(entries):
        check_name(document, (*path, index, "kind"), entry.kind)
        devices += [Device(entry.kind, entry.model, entry.milli)] * entry.count
    if len(devices) > MAX_DEVICES:
        raise invalid(document, path, f"has {len(devices)} devices", hint=f"a host has at most {MAX_DEVICES}")
    return tuple(devices)


def read_device_requests(
    document: Document, path: Path, entries: Sequence[DeviceRequestEntry]
) -> tuple[DeviceRequest, ...]:
    """Read a guest's device requests."""
    for index, entry in enumerate(entries):
        check_name(document, (*path, index, "kind"), entry.kind)
    total = sum(entry.count for entry in entries)
    if total > MAX_DEVICES:
        raise invalid(document, path, f"asks for {total} devices", hint=f"a host has at most {MAX_DEVICES}")
    return tuple(DeviceRequest(e.kind, e.count, e.milli, tuple(e.models)) for e in entries)


def read_taints(document: Document, path: Path, entries: Sequence[TaintEntry]) -> tuple[Taint, ...]:
    """Read a host's taints; a key may not be empty."""
    for index, entry in enumerate(entries):
        check_name(document, (*path, index, "key"), entry.key)
    return tuple(Taint(e.key, e.value, e.effect) for e in entries)


def read_tolerations(document: Document, path: Path, entries: Sequence[TolerationEntry]) -> tuple[Toleration, ...]:
    """Read a guest's tolerations; those that could never match are refused, as Kubernetes does."""
    for index, entry in enumerate(entries):
        if entry.operator == "Exists" and entry.value:
            raise invalid(document, (*path, index), "has a value that 'Exists' ignores", hint="remove 'value'")
        if entry.operator == "Equal" and not entry.key:
            raise invalid(
                document, (*path, index), "has no key", hint="write 'operator: Exists' to tolerate all taints"
            )
    return tuple(Toleration(e.key, e.operator, e.value, e.effect) for e in entries)


def read_term(document: Document, path: Path, entry: TermEntry) -> Term:
    """Read the requirements of one term; plain host names become one requirement."""
    expressions = tuple(
        read_expression(document, (*path, "expressions", index), one) for index, one in enumerate(entry.expressions)
    )
    names: list[Expression] = []
    plain = tuple(one for one in entry.names if isinstance(one, str))
    if plain:
        names.append(Expression(HOST_NAME_KEY, "In", plain))
    for index, one in enumerate(entry.names):
        here = (*path, "names", index)
        if isinstance(one, str):
            check_name(document, here, one)
        elif not one.values:
            raise invalid(document, here, f"has no values for {one.operator}", hint="name at least one host")
        else:
            names.append(Expression(HOST_NAME_KEY, one.operator, tuple(one.values)))
    if not expressions and not names:
        raise invalid(document, path, "has no requirement, so no host would match", hint="remove it, or add one")
    return Term(expressions, tuple(names))


def read_expression(document: Document, path: Path, entry: ExpressionEntry) -> Expression:
    """Read one requirement on a label."""
    if not entry.key:
        raise invalid(document, path, "has an empty key", hint="name the label")
    values, operator = entry.values, entry.operator
    if operator in ("In", "NotIn") and not values:
        raise invalid(document, path, f"has no values for {operator}", hint="list at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise invalid(document, path, f"has values, which {operator} does not take", hint="remove 'values', or use In")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _INT64.fullmatch(values[0])):
        shown = quote(", ".join(values))
        raise invalid(document, path, f"has values {shown}", hint=f'{operator} needs one integer in quotes: ["8"]')
    return Expression(entry.key, operator, tuple(values))
