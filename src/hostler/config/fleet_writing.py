"""The model to files of kind ``Fleet``: the inverse of reading, so that output can be fed back as input.

Amounts are written as people do (``1500m``, ``2Gi``), and what equals its default is left out.
``hostler place -o yaml`` and the tools that convert other formats write through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import yaml

from hostler.config.entries import API_VERSION, write_amounts, write_ratios
from hostler.config.policies import write_policy
from hostler.config.yaml_tree import resolve_plain
from hostler.model import Device, Expression, Guest, Host, Policy, Taint, Term, Toleration, format_resource

__all__ = ["write_fleet", "write_yaml"]


def write_fleet(
    hosts: Iterable[Host], guests: Iterable[Guest], *, policy: str = "", policies: Sequence[Policy] = ()
) -> dict[str, object]:
    """Return plain values from which ``read_fleet`` makes equal hosts, guests and policies."""
    file: dict[str, object] = {"apiVersion": API_VERSION, "kind": "Fleet"}
    if policy:
        file["policy"] = policy
    if policies:
        file["policies"] = [write_policy(one) for one in policies]
    file["hosts"] = [_write_host(host) for host in hosts]
    file["guests"] = [_write_guest(guest) for guest in guests]
    return file


def write_yaml(data: object) -> str:
    """Write plain values as YAML that this package, and readers of YAML 1.1, read back as the same values."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """PyYAML's writer, which also quotes strings that YAML 1.2 alone takes for numbers (``1e3``)."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(resolve_plain(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _write_host(host: Host) -> dict[str, object]:
    return _without_empty(
        name=host.name,
        uid=host.uid if host.uid != host.name else "",
        version=host.version,
        capacity=write_amounts(host.capacity, format_resource),
        devices=_write_devices(host.devices),
        labels=dict(host.labels),
        taints=[_write_taint(taint) for taint in host.taints],
        cordoned=host.cordoned,
        overcommit=write_ratios(host.overcommit),
        reserve=write_amounts(host.reserve, format_resource),
        rank=host.rank,
        draw_key=host.draw_key,
    )


def _write_guest(guest: Guest) -> dict[str, object]:
    spec = guest.spec
    entry = _without_empty(
        name=guest.name,
        uid=guest.uid if guest.uid != f"{spec.namespace}/{guest.name}" else "",
        version=guest.version,
        namespace=spec.namespace if spec.namespace != "default" else "",
        requests=write_amounts(spec.requests, format_resource),
        scored_requests=write_amounts(spec.scored_requests, format_resource),
        devices=[
            {
                "kind": one.kind,
                "count": one.count,
                **({"milli": one.milli} if one.milli != 1000 else {}),
                **({"models": list(one.models)} if one.models else {}),
            }
            for one in spec.devices
        ],
        priority=spec.priority,
        policy=spec.policy,
        host=guest.host,
        on_devices=list(guest.on_devices),
        host_name=spec.host_name,
        host_selector=dict(spec.host_selector),
        host_affinity=[_write_term(term) for term in spec.host_affinity],
        preferred_hosts=[{"weight": one.weight, "term": _write_term(one.term)} for one in spec.preferred_hosts],
        tolerations=[_write_toleration(one) for one in spec.tolerations],
        labels=dict(spec.labels),
        prepare=list(spec.prepare),
    )
    if guest.draw_key is not None:
        entry["draw_key"] = guest.draw_key
    return entry


def _without_empty(**values: object) -> dict[str, object]:
    """Leave out what is empty, zero or false: all defaults are."""
    return {key: value for key, value in values.items() if value}


def _write_devices(devices: Sequence[Device]) -> list[object]:
    entries: list[object] = []
    for device, group in groupby(devices):
        entry = _without_empty(kind=device.kind, model=device.model, count=len(list(group)))
        entries.append(entry if device.milli == 1000 else {**entry, "milli": device.milli})
    return entries


def _write_taint(taint: Taint) -> dict[str, object]:
    return _without_empty(key=taint.key, value=taint.value, effect=taint.effect)


def _write_toleration(one: Toleration) -> dict[str, object]:
    return _without_empty(key=one.key, operator=one.operator, value=one.value, effect=one.effect)


def _write_term(term: Term) -> dict[str, object]:
    return _without_empty(
        expressions=[
            _without_empty(key=one.key, operator=one.operator, values=list(one.values)) for one in term.expressions
        ],
        names=_write_names(term.names),
    )


def _write_names(names: Sequence[Expression]) -> list[object]:
    if len(names) == 1 and names[0].operator == "In":
        return list(names[0].values)
    return [{"operator": one.operator, "values": list(one.values)} for one in names]
