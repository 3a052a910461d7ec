"""The structs that describe a file of kind ``Fleet``, key by key; unknown keys are refused.

They are what a person writes, not the model: amounts are text, ``count`` stands for many.
:mod:`hostler.config.fleet` turns them into the model. The JSON schema is made from them, so their
docstrings and descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostler.config.entries import Quantities
from hostler.config.policies import PolicyEntry
from hostler.model.selectors import Effect, Operator

__all__ = [
    "DeviceEntry",
    "DeviceRequestEntry",
    "ExpressionEntry",
    "FleetFile",
    "GuestEntry",
    "HostEntry",
    "NameExpressionEntry",
    "TaintEntry",
    "TermEntry",
    "TolerationEntry",
    "WeightedTermEntry",
]

Count = Annotated[int, Meta(ge=1, le=1_000_000, description="So many equal ones: NAME-0, NAME-1 and so on.")]
DeviceCount = Annotated[int, Meta(ge=1, le=64)]
Milli = Annotated[int, Meta(ge=1, le=1000, description="Thousandths of one device.")]
Version = Annotated[int, Meta(ge=0, le=2**63 - 1, description="Of two facts about one thing, the higher counts.")]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Ratios = Annotated[dict[str, str | int | float], Meta(description="Resource to ratio, such as {cpu: 1.5}.")]
Ignored = Annotated[object, Meta(description="Output of 'hostler place'; accepted and ignored.")]


class DeviceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equal devices of a host."""

    kind: str
    model: str = ""
    count: DeviceCount = 1
    milli: Milli = 1000


class TaintEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mark that keeps away guests which do not tolerate it."""

    key: str
    value: str = ""
    effect: Effect = "NoSchedule"


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host, or many equal ones; overcommit and reserve beat the policy's."""

    name: str
    uid: str = ""
    version: Version = 0
    count: Count | None = None
    capacity: Quantities = {}
    devices: list[DeviceEntry] = []
    labels: dict[str, str] = {}
    taints: list[TaintEntry] = []
    cordoned: bool = False
    overcommit: Ratios = {}
    reserve: Quantities = {}
    rank: Int32 = 0
    draw_key: int | None = None


class DeviceRequestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many devices of a kind, each with so many milli-units, of any of the models (none named: any)."""

    kind: str
    count: DeviceCount = 1
    milli: Milli = 1000
    models: list[str] = []


class ExpressionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on one label of a host."""

    key: str
    operator: Operator = "Exists"
    values: list[str] = []


class NameExpressionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on a host's name."""

    values: list[str]
    operator: Literal["In", "NotIn"] = "In"


class TermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements that must all hold; names are plain host names (one of them), or expressions."""

    expressions: list[ExpressionEntry] = []
    names: list[str | NameExpressionEntry] = []


class WeightedTermEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements that a guest would like to see met, and how much."""

    weight: Annotated[int, Meta(ge=1, le=100)]
    term: TermEntry


class TolerationEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint that a guest does not mind; no key or no effect means any."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Effect | Literal[""] = ""


class GuestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A guest, or many equal ones; host is where it already runs, host_name the only host that will do."""

    name: str
    uid: str = ""
    version: Version = 0
    count: Count | None = None
    requests: Quantities = {}
    scored_requests: Quantities = {}
    devices: list[DeviceRequestEntry] = []
    priority: Int32 = 0
    policy: str = ""
    host: str = ""
    on_devices: list[Annotated[int, Meta(ge=0, le=127)]] = []
    host_name: str = ""
    host_selector: dict[str, str] = {}
    host_affinity: list[TermEntry] = []
    preferred_hosts: list[WeightedTermEntry] = []
    tolerations: list[TolerationEntry] = []
    namespace: str = "default"
    labels: dict[str, str] = {}
    prepare: list[str] = []
    draw_key: Annotated[int, Meta(ge=0)] | None = None


class FleetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts, and guests to be placed on them."""

    apiVersion: Literal["hostler/v1"]
    kind: Literal["Fleet"]
    hosts: list[HostEntry] = []
    guests: list[GuestEntry] = []
    policy: Annotated[str, Meta(description="The policy of guests that name none.")] = ""
    policies: list[PolicyEntry] = []
    decisions: Ignored = None
    summary: Ignored = None
