"""Facts: everything that a front may report to an engine. One tagged union, for journals, messages and tests alike.

Facts about hosts and guests carry an identity (name, uid) and a version. The same fact again, or an older one, changes
nothing. Two different facts of equal version contradict each other and are rejected. ``at`` is the time of the fact in
nanoseconds. The engine's clock never goes back, so a late fact does not turn it back.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.model.guests import Guest, GuestSpec
from hostler.model.hosts import Host
from hostler.model.policies import Policy
from hostler.model.resources import Labels
from hostler.model.tenancy import Budget, Gang, Quota, Reservation

__all__ = [
    "Answered", "BindFailed", "BudgetChanged", "BudgetLeft", "Event", "EvictFailed", "Fact", "GangChanged", "GangLeft",
    "GuestArrived", "GuestBound", "GuestChanged", "GuestFailed", "GuestLeft", "GuestNominated", "GuestsArrived",
    "HostChanged", "HostJoined", "HostLeft", "HostsJoined", "NamespaceChanged", "PolicyChanged", "Prepared",
    "QuotasChanged", "ReservationChanged", "ReservationLeft",
]  # fmt: skip


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Base of all events."""

    at: int = 0


class HostJoined(Fact, frozen=True, tag="host_joined"):
    """A host joined, or came back, perhaps with another size."""

    host: Host


class HostsJoined(Fact, frozen=True, tag="hosts_joined"):
    """Many hosts at once."""

    hosts: tuple[Host, ...]


class HostChanged(Fact, frozen=True, tag="host_changed"):
    """A host's size, labels, taints, devices or cordon changed."""

    host: Host


class HostLeft(Fact, frozen=True, tag="host_left"):
    """A host left; its guests are parked until the host comes back or their end is reported.

    ``version``, if the front knows it, rejects older facts about the host that arrive late.
    """

    name: str
    uid: str = ""
    version: int = 0


class GuestArrived(Fact, frozen=True, tag="guest_arrived"):
    """A guest needs a host, or already has one (``guest.host``)."""

    guest: Guest


class GuestsArrived(Fact, frozen=True, tag="guests_arrived"):
    """Many guests at once, as columns; ``spec_of[i]`` is the index into ``specs`` for guest i."""

    specs: tuple[GuestSpec, ...]
    spec_of: tuple[int, ...]
    names: tuple[str, ...]
    uids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    draw_keys: tuple[int, ...] = ()


class GuestChanged(Fact, frozen=True, tag="guest_changed"):
    """A guest's spec changed, or it was bound from outside."""

    guest: Guest


class GuestLeft(Fact, frozen=True, tag="guest_left"):
    """A guest ended, in whatever state; its uid is never used again."""

    uid: str


class GuestBound(Fact, frozen=True, tag="guest_bound"):
    """A Bind was carried out: the assumed placement is confirmed."""

    uid: str
    host: str


class BindFailed(Fact, frozen=True, tag="bind_failed"):
    """A Bind was not carried out: everything that the guest held is released."""

    uid: str
    host: str
    reason: str = ""


class Answered(Fact, frozen=True, tag="answered"):
    """The answer to an Ask: scores of acceptable hosts, and rejections of others."""

    uid: str
    ask: int
    scores: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    error: str = ""


class Prepared(Fact, frozen=True, tag="prepared"):
    """The answer to a Prepare: ready, or the reason why not."""

    uid: str
    host: str
    error: str = ""


class EvictFailed(Fact, frozen=True, tag="evict_failed"):
    """An Evict was not carried out: the guest stays."""

    uid: str
    reason: str = ""


class GuestFailed(Fact, frozen=True, tag="guest_failed"):
    """A plugin failed while a guest was decided: the guest is tried again later, and others are decided."""

    uid: str
    reason: str = ""


class GuestNominated(Fact, frozen=True, tag="guest_nominated"):
    """Room on a host was promised to a waiting guest before the engine started; its victims may still be leaving."""

    uid: str
    host: str


class NamespaceChanged(Fact, frozen=True, tag="namespace_changed"):
    """A namespace's labels, for namespace selectors; no labels also means that the namespace is gone."""

    name: str
    labels: Labels = ()


class GangChanged(Fact, frozen=True, tag="gang_changed"):
    """A gang was added or changed; members may have arrived before it."""

    gang: Gang


class GangLeft(Fact, frozen=True, tag="gang_left"):
    """A gang was deleted; members that still wait keep waiting for it."""

    key: str


class BudgetChanged(Fact, frozen=True, tag="budget_changed"):
    """A disruption budget was added or changed."""

    budget: Budget


class BudgetLeft(Fact, frozen=True, tag="budget_left"):
    """A disruption budget was deleted."""

    key: str


class QuotasChanged(Fact, frozen=True, tag="quotas_changed"):
    """All quotas that apply from now on."""

    quotas: tuple[Quota, ...]


class ReservationChanged(Fact, frozen=True, tag="reservation_changed"):
    """A reservation was added or changed."""

    reservation: Reservation


class ReservationLeft(Fact, frozen=True, tag="reservation_left"):
    """A reservation was deleted before its end."""

    name: str


class PolicyChanged(Fact, frozen=True, tag="policy_changed"):
    """All policies that apply from now on; the first is the default.

    Waiting guests are tried again by them, unless ``wakes`` is false: then only typical mixes changed, which makes no
    guest fit that did not fit before.
    """

    policies: tuple[Policy, ...]
    wakes: bool = True


Event: TypeAlias = (
    HostJoined
    | HostsJoined
    | HostChanged
    | HostLeft
    | GuestArrived
    | GuestsArrived
    | GuestChanged
    | GuestLeft
    | GuestBound
    | BindFailed
    | Answered
    | Prepared
    | EvictFailed
    | GuestFailed
    | GuestNominated
    | NamespaceChanged
    | GangChanged
    | GangLeft
    | BudgetChanged
    | BudgetLeft
    | QuotasChanged
    | ReservationChanged
    | ReservationLeft
    | PolicyChanged
)
