"""Type checks of facts at the engine's boundary: a fact built in Python may have anything in its fields.

Facts decoded from a journal or a message have the right types already, and checking them again is cheap. Specs and
hosts are checked when they are interned, once per distinct value.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hostler.errors import FactError
from hostler.model import Event, Guest, GuestArrived, GuestChanged, GuestsArrived, HostChanged, HostJoined, HostsJoined

__all__ = ["check_event", "check_types"]

T = TypeVar("T", bound=msgspec.Struct)


def check_event(event: Event) -> None:
    """Reject an event with a field of the wrong type."""
    if isinstance(event, GuestArrived | GuestChanged):
        _check_guest(event.guest)
    elif isinstance(event, GuestsArrived):
        _check_columns(event)
    elif isinstance(event, HostJoined | HostChanged):
        check_types(event.host, "host")
    elif isinstance(event, HostsJoined):
        if type(event.hosts) is not tuple:
            raise FactError("the hosts of hosts_joined are not a tuple")
        for host in event.hosts:
            check_types(host, "host")
    else:
        check_types(event, "event")


def check_types(value: T, what: str) -> None:
    """Reject a struct with a field of another type than it declares."""
    if not isinstance(value, msgspec.Struct):
        raise FactError(f"{value!r:.80} is not a {what}")
    try:
        same = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))
        matches = same == value and hash(same) == hash(value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FactError(f"a {what} has a field of a wrong type: {error}"[:400]) from error
    if not matches:
        raise FactError(f"a {what} has a field of a wrong type", hint="lists must be tuples, amounts whole numbers")


def _check_guest(guest: Guest) -> None:
    if type(guest) is not Guest or type(guest.gang) is not str or type(guest.started) is not int:
        raise FactError("a guest has a field of a wrong type")
    if {type(guest.name), type(guest.uid), type(guest.host), type(guest.replaces)} != {str} or type(
        guest.version
    ) is not int:
        raise FactError("a guest has a field of a wrong type")
    is_plain = type(guest.on_devices) is tuple and not guest.on_devices and guest.draw_key is None
    if not is_plain or not (guest.name + guest.uid + guest.host + guest.gang + guest.replaces).isascii():
        check_types(guest, "guest")
    if not 0 <= (guest.draw_key or 0) < 2**64 or not -(2**63) <= guest.started < 2**62:
        raise FactError(f"guest {guest.name!r} has a draw key or a start beyond 64 bits")
    if not 0 <= guest.version < 2**63:
        raise FactError(f"guest {guest.name!r} has version {guest.version}, which does not fit 64 bits")


def _check_columns(event: GuestsArrived) -> None:
    columns = (
        (event.names, str), (event.uids, str), (event.hosts, str), (event.spec_of, int), (event.draw_keys, int),
    )  # fmt: skip
    for column, kind in columns:
        if type(column) is not tuple or not set(map(type, column)) <= {kind}:
            raise FactError(f"a column of guests_arrived is not a tuple of {kind.__name__}")
    try:
        "".join((*event.names, *event.uids, *event.hosts)).encode()
    except UnicodeEncodeError as error:
        raise FactError(f"a name in guests_arrived is no text: {error}") from error
    if any(not 0 <= key < 2**64 for key in event.draw_keys):
        raise FactError("a draw key of guests_arrived is beyond 64 bits")
    if type(event.specs) is not tuple:
        raise FactError("the specs of guests_arrived are not a tuple")
