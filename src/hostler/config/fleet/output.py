"""The model to files of kind ``Fleet``: the inverse of reading, so that output can be fed back as input.

Amounts are written as people do (``1500m``, ``2Gi``), and what equals its default is left out. ``hostler place -o
yaml`` and the tools that convert other formats write through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import yaml

from hostler.config.entries import API_VERSION, write_amounts, write_ratios
from hostler.config.fleet.guest_terms import EXPRESSIONS
from hostler.config.policies import write_policy
from hostler.config.times import format_duration, format_time
from hostler.config.yaml_tree import resolve_plain
from hostler.model import (
    STORAGE,
    Budget,
    Device,
    Expression,
    Gang,
    Guest,
    GuestSpec,
    GuestTerm,
    Host,
    HostPort,
    Policy,
    Quota,
    Reservation,
    Selector,
    Spread,
    Taint,
    Tenancy,
    Term,
    Toleration,
    WeightedGuestTerm,
    format_resource,
)

__all__ = [
    "gang_text", "with_selector", "without_empty", "write_fleet", "write_guest_term", "write_port", "write_spread",
    "write_taint", "write_tenancy", "write_term", "write_toleration", "write_yaml",
]  # fmt: skip


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


_USUAL = Gang(name="usual")


def write_tenancy(tenancy: Tenancy) -> dict[str, object]:
    """Return the lists of a fleet file; those that would be empty are left out."""
    return without_empty(
        namespaces=[
            without_empty(name=name, labels=dict(labels)) for name, labels in tenancy.namespaces.items() if labels
        ],
        gangs=[_write_gang(gang) for gang in tenancy.gangs],
        budgets=[_write_budget(budget) for budget in tenancy.budgets],
        quotas=[_write_quota(quota) for quota in tenancy.quotas],
        reservations=[_write_reservation(one) for one in tenancy.reservations],
    )


def gang_text(key: str, namespace: str) -> str:
    """Write the key of a gang as it is written inside a namespace."""
    return key.removeprefix(f"{namespace}/")


def _namespace(namespace: str) -> str:
    return namespace if namespace != "default" else ""


def _write_gang(gang: Gang) -> dict[str, object]:
    entry = without_empty(
        name=gang.name,
        namespace=_namespace(gang.namespace),
        version=gang.version,
        min_count=gang.min_count,
        max_count=gang.max_count,
        topology=gang.topology,
    )
    if gang.priority is not None:
        entry["priority"] = gang.priority
    for key in ("disruption", "when_broken", "head_of_line"):
        if getattr(gang, key) != getattr(_USUAL, key):
            entry[key] = getattr(gang, key)
    if gang.release_after_ns != _USUAL.release_after_ns:
        entry["release_after"] = format_duration(gang.release_after_ns)
    return entry


def _write_budget(budget: Budget) -> dict[str, object]:
    entry = without_empty(
        name=budget.name,
        namespace=_namespace(budget.namespace),
        version=budget.version,
        allowed=max(budget.allowed, 0),  # a budget that was broken has nothing left
        disrupted=list(budget.disrupted),
    )
    return with_selector(entry, "selector", budget.selector)


def _write_quota(quota: Quota) -> dict[str, object]:
    return without_empty(
        tenant=quota.tenant,
        version=quota.version,
        min=write_amounts(quota.min, format_resource),
        max=write_amounts(quota.max, format_resource),
    )


def _write_reservation(one: Reservation) -> dict[str, object]:
    entry = without_empty(
        name=one.name,
        version=one.version,
        amounts=write_amounts(one.amounts, format_resource),
        hosts=[write_term(term) for term in one.hosts],
        shares={host: write_amounts(amounts, format_resource) for host, amounts in one.shares},
        tenant=one.tenant,
        gang=one.gang,
        since=format_duration(one.since) if one.since else "",
        until=format_duration(one.until) if one.until else "",
    )
    return with_selector(entry, "selector", one.selector)


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
