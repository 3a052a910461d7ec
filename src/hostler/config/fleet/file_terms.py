"""The structs for what a guest says about hosts and about other guests, as a fleet file writes it.

Part of :mod:`hostler.config.fleet.file`, which says how they are used; the JSON schema is made from them too.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.entries import means
from hostler.model.selectors import Effect, Operator

__all__ = [
    "ExpressionEntry", "GuestTermEntry", "NameExpressionEntry", "PortEntry", "PortNumber", "SelectorEntry",
    "SpreadEntry", "TaintEntry", "TermEntry", "TolerationEntry", "Weight", "WeightedGuestTermEntry",
    "WeightedTermEntry",
]  # fmt: skip

Weight = Annotated[int, Meta(ge=1, le=100)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PortNumber = Annotated[int, Meta(ge=1, le=65535)]


class TaintEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mark that keeps away guests which do not tolerate it."""

    key: Annotated[str, means("Its name.")]
    value: Annotated[str, means("A value beside the name; a toleration must match both.")] = ""
    effect: Annotated[
        Effect, means("PreferNoSchedule: the host only scores lower. The others: it refuses the guest.")
    ] = "NoSchedule"


class TolerationEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint that a guest does not mind; no key or no effect means any."""

    key: Annotated[str, means("The taint's name. Empty with Exists: every taint.")] = ""
    operator: Annotated[
        Literal["Equal", "Exists"], means("Equal: the value must be the same. Exists: any value will do.")
    ] = "Equal"
    value: Annotated[str, means("The taint's value, for Equal.")] = ""
    effect: Annotated[Effect | Literal[""], means("The taint's effect. Empty: any.")] = ""


class ExpressionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on one label."""

    key: Annotated[str, means("The label's name.")]
    operator: Annotated[
        Operator, means("How label and values are compared. NotIn also holds where the label is missing.")
    ] = "Exists"
    values: Annotated[
        list[str], means("Values for In and NotIn; one integer in quotes for Gt and Lt; none for the others.")
    ] = []


# Labels with their values, {app: web}; under the key "expressions" there may be a list of requirements as well.
SelectorEntry = dict[str, str | list[ExpressionEntry]]


class NameExpressionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on a host's name."""

    values: Annotated[list[str], means("Names of hosts.")]
    operator: Annotated[Literal["In", "NotIn"], means("In: one of these hosts. NotIn: any other.")] = "In"


class TermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements that must all hold; names are plain host names (one of them), or expressions."""

    expressions: Annotated[list[ExpressionEntry], means("Requirements on labels.")] = []
    names: Annotated[list[str | NameExpressionEntry], means("Requirements on the host's name.")] = []


class WeightedTermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements that a guest would like to see met, and how much."""

    weight: Annotated[Weight, means("How much it counts beside the guest's other wishes.")]
    term: Annotated[TermEntry, means("What the guest would like.")]


class GuestTermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some other guests, and the kind of domain in which being near to them counts."""

    topology: Annotated[
        str, means("A label of hosts that makes domains, such as zone. kubernetes.io/hostname: the host.")
    ]
    selector: Annotated[
        SelectorEntry | UnsetType, means("Which guests, by their labels, such as {app: web}. {}: all. Unset: none.")
    ] = UNSET
    namespaces: Annotated[list[str], means("Their namespaces. Empty, and none selected: the guest's own.")] = []
    namespace_selector: Annotated[
        SelectorEntry | UnsetType, means("More namespaces, by the labels of those. {}: all of them.")
    ] = UNSET


class WeightedGuestTermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guests that one would like to be near to, or far from, and how much."""

    weight: Annotated[Weight, means("How much it counts beside the guest's other wishes about guests.")]
    term: Annotated[GuestTermEntry, means("Which guests, and what near means.")]


class SpreadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spread the selected guests of the namespace over domains, so that none is max_skew ahead of the least."""

    topology: Annotated[str, means("The label of hosts that makes the domains, as for affinity.")]
    selector: Annotated[
        SelectorEntry | UnsetType,
        means("Which guests are counted, by their labels, such as {app: web}. Unset: none."),
    ] = UNSET
    max_skew: Annotated[Positive, means("By how many guests a domain may be ahead of the least.")] = 1
    is_hard: Annotated[bool, means("True: other hosts are refused. False: they only score lower.")] = True
    min_domains: Annotated[Positive, means("With fewer domains than this, the least counts as zero.")] = 1
    honor_affinity: Annotated[
        bool, means("True: hosts that the guest's own selector and affinity exclude do not count.")
    ] = True
    honor_taints: Annotated[bool, means("True: hosts with taints that it does not tolerate do not count.")] = False


class PortEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of the host that only one guest can have."""

    port: Annotated[PortNumber, means("Its number.")]
    protocol: Annotated[Literal["TCP", "UDP", "SCTP"], means("Ports of two protocols are two ports.")] = "TCP"
    address: Annotated[str, means("An address of the host. Empty: all of them.")] = ""
