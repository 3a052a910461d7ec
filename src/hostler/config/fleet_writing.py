"""The model to files of kind ``Fleet``: the inverse of reading, so that output can be fed back as input.

Amounts are written as people do (``1500m``, ``2Gi``), and what equals its default is left out.
``hostler place -o yaml`` and the tools that convert other formats write through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import yaml

from hostler.config.entries import API_VERSION, write_amounts, write_ratios
from hostler.config.fleet_writing_tenancy import gang_text, write_tenancy
from hostler.config.fleet_writing_terms import (
    with_selector,
    without_empty,
    write_guest_term,
    write_port,
    write_spread,
    write_taint,
    write_term,
    write_toleration,
)
from hostler.config.policies import write_policy
from hostler.config.tenancy import Tenancy
from hostler.config.times import format_time
from hostler.config.yaml_tree import resolve_plain
from hostler.model import STORAGE, Device, Guest, GuestSpec, Host, Policy, WeightedGuestTerm, format_resource

__all__ = ["write_fleet", "write_yaml"]


def write_fleet(
    hosts: Iterable[Host],
    guests: Iterable[Guest],
    *,
    policy: str = "",
    policies: Sequence[Policy] = (),
    tenancy: Tenancy | None = None,
) -> dict[str, object]:
    """Return plain values from which ``read_fleet`` makes equal hosts, guests, policies and all the rest."""
    file: dict[str, object] = {"apiVersion": API_VERSION, "kind": "Fleet"}
    if policy:
        file["policy"] = policy
    if policies:
        file["policies"] = [write_policy(one) for one in policies]
    if tenancy is not None:
        file.update(write_tenancy(tenancy))
    file["hosts"] = [_write_host(host) for host in hosts]
    file["guests"] = [_write_guest(guest) for guest in guests]
    return file


_NO_ASCII = re.compile(r"[^\n -~]")


def write_yaml(data: object) -> str:
    """Write plain values as YAML that this package, and readers of YAML 1.1, read back as the same values.

    What a screen would not show, or obey, is escaped: names may come from strangers, and turn a line around.
    """
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return _NO_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """PyYAML's writer, which also quotes strings that YAML 1.2 alone takes for numbers (``1e3``)."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(resolve_plain(text), str) else "'"
    if any(not found.isprintable() for found in _NO_ASCII.findall(text)):
        style = '"'  # the only one that has escapes
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _write_host(host: Host) -> dict[str, object]:
    return without_empty(
        name=host.name,
        uid=host.uid if host.uid != host.name else "",
        version=host.version,
        capacity=write_amounts(host.capacity, format_resource),
        devices=_write_devices(host.devices),
        labels=dict(host.labels),
        taints=[write_taint(taint) for taint in host.taints],
        cordoned=host.cordoned,
        images=write_amounts(host.images, lambda _, size: format_resource(STORAGE, size)),
        overcommit=write_ratios(host.overcommit),
        reserve=write_amounts(host.reserve, format_resource),
        rank=host.rank,
        draw_key=host.draw_key,
    )


def _write_guest(guest: Guest) -> dict[str, object]:
    spec = guest.spec
    entry = without_empty(
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
        started=format_time(guest.started) if guest.started else "",
        gang=gang_text(guest.gang, spec.namespace),
        host_name=spec.host_name,
        host_selector=dict(spec.host_selector),
        host_affinity=[write_term(term) for term in spec.host_affinity],
        preferred_hosts=[{"weight": one.weight, "term": write_term(one.term)} for one in spec.preferred_hosts],
        tolerations=[write_toleration(one) for one in spec.tolerations],
        labels=dict(spec.labels),
        prepare=list(spec.prepare),
    )
    if guest.draw_key is not None:
        entry["draw_key"] = guest.draw_key
    return {**entry, **_write_about_guests(spec)}


def _write_about_guests(spec: GuestSpec) -> dict[str, object]:
    """Write what a guest says about others, and what most guests do not have."""
    entry = without_empty(
        affinity=[write_guest_term(term) for term in spec.affinity],
        anti_affinity=[write_guest_term(term) for term in spec.anti_affinity],
        preferred_affinity=[_write_weighted(one) for one in spec.preferred_affinity],
        preferred_anti_affinity=[_write_weighted(one) for one in spec.preferred_anti_affinity],
        spread=[write_spread(one) for one in spec.spread],
        ports=[write_port(one) for one in spec.ports],
        images=list(spec.images),
        tenant=spec.tenant,
        is_leaving=spec.is_leaving,
        unsupported=list(spec.unsupported),
    )
    if not spec.may_preempt:
        entry["may_preempt"] = False
    return with_selector(entry, "siblings", spec.siblings)


def _write_weighted(one: WeightedGuestTerm) -> dict[str, object]:
    return {"weight": one.weight, "term": write_guest_term(one.term)}


def _write_devices(devices: Sequence[Device]) -> list[object]:
    entries: list[object] = []
    for device, group in groupby(devices):
        entry = without_empty(kind=device.kind, model=device.model, count=len(list(group)))
        entries.append(entry if device.milli == 1000 else {**entry, "milli": device.milli})
    return entries
