"""What a guest says about other guests: near them, away from them, spread over domains, with these ports and images.

A domain is the set of hosts that share the value of a label (the topology key): a server, a rack, a zone. Semantics are
those of Kubernetes' inter-pod affinity and topology spread, for VMs as much as for pods.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.resources import Labels
from hostler.model.selectors import Expression

__all__ = ["GuestTerm", "HostPort", "Selector", "Spread", "WeightedGuestTerm"]


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requirements on labels that must all hold; without any it matches everything."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether something with these labels is selected."""
        return all(expression.matches(labels) for expression in self.expressions)

    def text(self) -> str:
        """Write the selector in one line."""
        return ", ".join(expression.text() for expression in self.expressions) or "everything"


class GuestTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some other guests, and the kind of domain in which being near to them counts.

    Without a selector no guest is meant. Without namespaces and namespace selector, those of the guest's own namespace
    are meant; else the union of the named namespaces and the selected ones.
    """

    topology: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None

    def text(self) -> str:
        """Write the term in one line."""
        who = self.selector.text() if self.selector is not None else "nobody"
        return f"{who} by {self.topology}"


class WeightedGuestTerm(msgspec.Struct, frozen=True):
    """A term that a guest would like to see met (or, as anti-affinity, not met), and how much."""

    weight: int
    term: GuestTerm


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """Spread the selected guests of the namespace over domains, so that no domain is ``max_skew`` ahead of the least.

    ``min_domains``: with fewer eligible domains the least counts as zero. Hosts that the guest's own selector and
    affinity exclude do not count when ``honor_affinity``; those with untolerated taints, when ``honor_taints``.
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
        who = self.selector.text() if self.selector is not None else "nobody"
        return f"{who} by {self.topology}, skew {self.max_skew}"


class HostPort(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of the host that only one guest can have; no address means all of them."""

    port: int
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    address: str = ""

    def conflicts(self, other: HostPort) -> bool:
        """Say whether both cannot be on one host."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.address == other.address or not self.address or not other.address)

    def text(self) -> str:
        """Write the port in one word."""
        return f"{self.address or '*'}:{self.port}/{self.protocol}"
