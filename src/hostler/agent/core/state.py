"""All that an agent's core knows, as values: orders, observations, records, setbacks, lanes; and its results.

Values are replaced, never changed, so a step of the core can be repeated, compared and discarded. Used by
``decisions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from hostler.agent.core.admission import Amounts
from hostler.agent.driver import Landing, ObservedVm
from hostler.agent.messages import HostSize, Order, Trouble

__all__ = ["Action", "ActionOutcome", "AgentState", "DriverVerb", "Record", "Setback", "with_entry", "without_entry"]

T = TypeVar("T")

NEVER = 2**63 - 1


class DriverVerb(StrEnum):
    """What can be done about a VM. ``restart`` stops it; because it is stopped, the core then starts it."""

    CREATE = "create"
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    RESIZE = "resize"
    RESTART = "restart"
    DELETE = "delete"
    AWAIT_LANDING = "await_landing"
    SEND = "send"
    FORGET = "forget"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What must survive a kill of the agent; ``made`` is the order whose size the VM has."""

    vm: str
    generation: int = 0  # the newest that was fulfilled
    restarts: int = 0  # as many of the ordered restarts as are done
    sent: int = 0  # the generation under which it was being sent away: with an order not newer, it is not started
    is_gone: bool = False  # deleted under ``generation``: no order of that age makes it again
    kept: int = 0  # the generation under which it was being removed without its shared disks: no older one takes them
    made: Order | None = None
    resizing: Order | None = None  # begun and not known to be done: it has this size or that of ``made``
    when_silent: Literal["keep", "stop"] = "keep"  # for the watchdog


class Setback(msgspec.Struct, frozen=True, kw_only=True):
    """Why a VM is not as ordered, and when to try again."""

    trouble: Trouble
    generation: int
    retry_at: int = 0
    is_until_sync: bool = False  # blocked: tried again whenever it was time to look at the host


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do about one VM. The records of the state must be durable before it starts."""

    verb: DriverVerb
    vm: str
    order: Order | None = None
    landing: Landing | None = None


class ActionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an action; without a problem it was done."""

    trouble: Trouble | None = None
    landing: Landing | None = None


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides the next action."""

    limit: HostSize
    is_inventory_known: bool = True
    has_looked: bool = False  # before the first look at the host nothing is done
    has_all_orders: bool = False  # before that, what has no order may just not have been heard of yet
    version: int = 0  # of the orders
    orders: Mapping[str, Order] = MappingProxyType({})
    outdated: frozenset[str] = frozenset()  # VMs whose last order is older than their records
    found: Mapping[str, ObservedVm] = MappingProxyType({})
    records: Mapping[str, Record] = MappingProxyType({})
    setbacks: Mapping[str, Setback] = MappingProxyType({})
    landings: Mapping[str, Landing] = MappingProxyType({})
    busy: Mapping[str, Action] = MappingProxyType({})
    # An action failed, or one may have ended: look before the next one. Meanwhile it may have taken so much.
    doubts: Mapping[str, Amounts] = MappingProxyType({})
    cleared: frozenset[str] = frozenset()  # may be deleted: the guard against bulk teardown let them pass
    may_tear_down: bool = False
    unavailable: Mapping[str, str] = MappingProxyType({})  # storages out of reach, with the reason; "" for local disks
    silent_at: int = NEVER  # from then on a VM that a watchdog stops in silence is not started


def with_entry(entries: Mapping[str, T], key: str, value: T) -> dict[str, T]:
    """Return a copy with one more or another entry."""
    return {**entries, key: value}


def without_entry(entries: Mapping[str, T], key: str) -> dict[str, T]:
    """Return a copy without an entry."""
    return {name: value for name, value in entries.items() if name != key}
