"""Constraints of a guest about other guests: near, apart, spread over domains; and its ports and images.

A domain is the set of hosts that share the value of a label (the topology key): a server, a rack, a zone. Semantics are
those of Kubernetes' inter-pod affinity and topology spread, for VMs as much as for pods.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.resources import Labels
from hostler.model.selectors import Expression

__all__ = ["GuestTerm", "HostPort", "Selector", "Spread", "WeightedGuestTerm", "text_of"]


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
