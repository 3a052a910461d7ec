"""Facts: everything that an engine may be told. One tagged union, so that a journal, a message and a test agree.

Facts about hosts and guests carry identity (name, uid) and version. The same fact again, or an older one, changes
nothing; two different facts of equal version contradict each other and are refused. ``at`` is the time of the fact in
nanoseconds; the engine's clock never runs backwards, so a late fact does not turn it back.
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
    "Answered",
    "BindFailed",
    "BudgetChanged",
    "BudgetLeft",
    "Event",
    "EvictFailed",
    "Fact",
    "GangChanged",
    "GangLeft",
    "GuestArrived",
    "GuestBound",
    "GuestChanged",
    "GuestFailed",
    "GuestLeft",
    "GuestNominated",
    "GuestsArrived",
    "HostChanged",
    "HostJoined",
    "HostLeft",
    "HostsJoined",
    "NamespaceChanged",
    "PolicyChanged",
    "Prepared",
    "QuotasChanged",
    "ReservationChanged",
    "ReservationLeft",
]


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Base of all events."""

    at: int = 0


class HostJoined(Fact, frozen=True, tag="host_joined"):
    """A host is there, or came back, perhaps with another size."""

    host: Host


class HostsJoined(Fact, frozen=True, tag="hosts_joined"):
    """Many hosts at once."""

    hosts: tuple[Host, ...]


class HostChanged(Fact, frozen=True, tag="host_changed"):
    """A host's size, labels, taints, devices or cordon changed."""

    host: Host


class HostLeft(Fact, frozen=True, tag="host_left"):
    """A host is gone; what ran there is parked until the host or the guest's end is reported.

    ``version``, where the front knows it, keeps out older facts about the host that come late.
    """

    name: str
    uid: str = ""
    version: int = 0


class GuestArrived(Fact, frozen=True, tag="guest_arrived"):
    """A guest wants a place, or already has one (``guest.host``)."""

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
    """A guest's spec changed, or somebody bound it."""

    guest: Guest


class GuestLeft(Fact, frozen=True, tag="guest_left"):
    """A guest is gone, whatever state it was in; its uid never comes back."""

    uid: str


class GuestBound(Fact, frozen=True, tag="guest_bound"):
    """A Bind was carried out: the assumed placement is real now."""

    uid: str
    host: str


class BindFailed(Fact, frozen=True, tag="bind_failed"):
    """A Bind was not carried out: everything that it held goes back."""

    uid: str
    host: str
    reason: str = ""


class Answered(Fact, frozen=True, tag="answered"):
    """The answer to an Ask: scores of the acceptable hosts, and refusals of others."""

    uid: str
    ask: int
    scores: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    error: str = ""


class Prepared(Fact, frozen=True, tag="prepared"):
    """The answer to a Prepare: ready, or why not."""

    uid: str
    host: str
    error: str = ""


class EvictFailed(Fact, frozen=True, tag="evict_failed"):
    """An Evict was not carried out: the guest stays."""

    uid: str
    reason: str = ""


class GuestFailed(Fact, frozen=True, tag="guest_failed"):
    """Deciding a guest failed, by a plugin's fault: it is tried again later, and the others go on."""

    uid: str
    reason: str = ""


class GuestNominated(Fact, frozen=True, tag="guest_nominated"):
    """Room on a host was promised to a waiting guest before the engine's time; its victims may still be leaving."""

    uid: str
    host: str


class NamespaceChanged(Fact, frozen=True, tag="namespace_changed"):
    """A namespace's labels, which namespace selectors look at; none at all also means that it is gone."""

    name: str
    labels: Labels = ()


class GangChanged(Fact, frozen=True, tag="gang_changed"):
    """A gang is there, or changed; members may have come before it."""

    gang: Gang


class GangLeft(Fact, frozen=True, tag="gang_left"):
    """A gang is gone; members that still wait keep waiting for it."""

    key: str


class BudgetChanged(Fact, frozen=True, tag="budget_changed"):
    """A disruption budget is there, or changed."""

    budget: Budget


class BudgetLeft(Fact, frozen=True, tag="budget_left"):
    """A disruption budget is gone."""

    key: str


class QuotasChanged(Fact, frozen=True, tag="quotas_changed"):
    """The quotas that hold from now on, all of them."""

    quotas: tuple[Quota, ...]


class ReservationChanged(Fact, frozen=True, tag="reservation_changed"):
    """A reservation is there, or changed."""

    reservation: Reservation


class ReservationLeft(Fact, frozen=True, tag="reservation_left"):
    """A reservation is gone before its time."""

    name: str


class PolicyChanged(Fact, frozen=True, tag="policy_changed"):
    """The policies that decide from now on, all of them; the first is the default."""

    policies: tuple[Policy, ...]


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
