"""Guests, and their specs (shapes): everything that scheduling can see of them.

Guests with equal ``spec`` are interchangeable. The engine interns specs, so share one object between guests if you can:
it is compared by identity first.

A spec may have constraints about other guests: near, apart, spread over domains. A domain is the set of hosts that
share the value of a label (the topology key): a server, a rack, a zone. Semantics are those of Kubernetes' inter-pod
affinity and topology spread, for VMs as much as for pods.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.hosts import WHOLE_DEVICE
from hostler.model.resources import CPU, MEMORY, Amounts, Labels, amount_of
from hostler.model.selectors import Expression, Term, Toleration, WeightedTerm

__all__ = [
    "MAX_TERMS",
    "UNASKED",
    "DeviceRequest",
    "Guest",
    "GuestSpec",
    "GuestTerm",
    "HostPort",
    "Selector",
    "Spread",
    "WeightedGuestTerm",
    "has_soft_constraints",
    "scored_amount",
    "text_of",
]

MAX_TERMS = 1024  # rules about other guests that one guest may have; fronts allow their users fewer


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requirements on labels that must all hold; without requirements it matches everything."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether something with these labels is selected."""
        return all(expression.matches(labels) for expression in self.expressions)

    def text(self) -> str:
        """Write the selector in one line."""
        return ", ".join(expression.text() for expression in self.expressions) or "everything"


def text_of(selector: Selector | None) -> str:
    """Write a term's selector in one line. The word for a missing one is in recorded reasons, so it must stay."""
    return selector.text() if selector is not None else "nobody"


class GuestTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """A set of other guests, and the kind of domain in which they count as near.

    Without a selector it matches no guest. Without namespaces and namespace selector, it is about the guest's own
    namespace; otherwise about the union of the named and the selected namespaces.
    """

    topology: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None

    def text(self) -> str:
        """Write the term in one line."""
        return f"{text_of(self.selector)} by {self.topology}"


class WeightedGuestTerm(msgspec.Struct, frozen=True):
    """A preferred term (or, as anti-affinity, a term to avoid), with its weight."""

    weight: int
    term: GuestTerm


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """Spread the selected guests of the namespace over domains: none is more than ``max_skew`` ahead of the lowest.

    ``min_domains``: with fewer eligible domains the lowest count is zero. Hosts that the guest's own selector and
    affinity exclude do not count if ``honor_affinity`` is set; hosts with untolerated taints do not count if
    ``honor_taints`` is set.
    """

    topology: str
    max_skew: int = 1
    selector: Selector | None = None
    is_hard: bool = True
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    def text(self) -> str:
        """Write the constraint in one line."""
        return f"{text_of(self.selector)} by {self.topology}, skew {self.max_skew}"


class HostPort(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of the host that only one guest can use; without an address it means all addresses."""

    port: int
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    address: str = ""

    def conflicts(self, other: HostPort) -> bool:
        """Say whether two ports cannot be used on one host."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.address == other.address or not self.address or not other.address)

    def text(self) -> str:
        """Write the port in one word."""
        return f"{self.address or '*'}:{self.port}/{self.protocol}"


class DeviceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number of devices of a kind, each with so many milli-units; any of ``models`` fits (none named: all fit)."""

    kind: str
    count: int = 1
    milli: int = WHOLE_DEVICE
    models: tuple[str, ...] = ()


class GuestSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The shape of a guest: requests, devices, constraints, priority, and the labels that others select it by."""

    requests: Amounts = ()
    scored_requests: Amounts = ()  # cpu and memory to score by, where that differs (see ``scored_amount``)
    devices: tuple[DeviceRequest, ...] = ()
    priority: int = 0
    policy: str = ""  # a policy's name; empty means the engine's default
    host_name: str = ""  # the only host that will do
    host_selector: Labels = ()
    host_affinity: tuple[Term, ...] = ()  # at least one must match; none given: all hosts match
    preferred_hosts: tuple[WeightedTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    namespace: str = "default"
    labels: Labels = ()
    affinity: tuple[GuestTerm, ...] = ()  # one guest that all of them match must be near
    anti_affinity: tuple[GuestTerm, ...] = ()  # none that any of them matches may be near
    preferred_affinity: tuple[WeightedGuestTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedGuestTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    siblings: Selector | None = None  # the guests of the same owner, for a policy's default spreading
    ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()  # one per container, init containers too
    tenant: str = ""
    may_preempt: bool = True
    is_leaving: bool = False  # it still uses its room, but it is being ended
    is_pinned: bool = False  # once it has a host, it can run on no other one: its data is there
    move_labels: Labels | None = None  # it can move while it runs, between hosts with these labels; None: it cannot
    unsupported: tuple[str, ...] = ()  # needs that are read but not evaluated yet: the guest is rejected for them
    prepare: tuple[str, ...] = ()  # what a front must get ready on the host before the guest is bound

    @property
    def term_count(self) -> int:
        """Return the number of rules about other guests; each costs the engine a counter."""
        near, apart = self.affinity, self.anti_affinity
        return (
            len(near) + len(apart) + len(self.preferred_affinity) + len(self.preferred_anti_affinity) + len(self.spread)
        )


def has_soft_constraints(spec: GuestSpec) -> bool:
    """Say whether a guest prefers some hosts: by their labels, by other guests there, or by a soft spread."""
    if spec.preferred_hosts or spec.preferred_affinity or spec.preferred_anti_affinity:
        return True
    return any(not one.is_hard for one in spec.spread)


# What Kubernetes scores a guest by that asks for no cpu or memory (kubernetes/kubernetes pkg/scheduler/util).
UNASKED = {CPU: 100, MEMORY: 200 * 2**20}


def scored_amount(spec: GuestSpec, resource: str) -> int:
    """Return the cpu or memory that allocation scorers use: the scored request, the request, or a default."""
    return amount_of(spec.scored_requests, resource) or amount_of(spec.requests, resource) or UNASKED[resource]


class Guest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A VM or a pod to be placed.

    ``host`` is set when the guest already runs there; ``on_devices`` then has the devices' indices, in the order of the
    spec's device requests. ``replaces`` is the uid of the same guest at the host that it moves away from: both have
    room until that one leaves. ``draw_key`` replaces the uid as the key of random choices: a redacted journal needs it
    to draw the same.
    """

    name: str
    uid: str = ""
    version: int = 0
    spec: GuestSpec = GuestSpec()
    host: str = ""
    on_devices: tuple[int, ...] = ()
    started: int = 0  # when it began to run, in nanoseconds; of equal victims the youngest go first
    gang: str = ""  # namespace/name of its gang
    draw_key: int | None = None
    replaces: str = ""
