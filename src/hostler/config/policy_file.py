"""The structs that describe a policy in files of kind ``Config`` and ``Fleet``, key by key; unknown keys are rejected.

:mod:`hostler.config.policies` turns them into the model. The JSON schema is made from them, so their docstrings and
descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.entries import Quantities, Quantity, means
from hostler.model.policies import DeviceRule, SoftRule, TieKey

__all__ = ["AskEntry", "MixPart", "PluginEntry", "PolicyEntry", "PreemptionEntry", "ScorerEntry"]

Anything = Annotated[object, means("Any value; the plugin checks it.")]
Args = dict[str, Anything]
Weight = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
NotNegative = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class PluginEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin with its arguments."""

    name: Annotated[str, means("The plugin's name; 'hostler plugins' lists them.")]
    args: Annotated[Args, means("The plugin's own arguments.")] = {}


class ScorerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer, its weight (negative: less is better) and its arguments."""

    name: Annotated[str, means("The scorer's name; 'hostler plugins' lists them.")]
    weight: Annotated[Weight, means("What its score is multiplied by; not 0. Negative: less is better.")] = 1
    args: Annotated[Args, means("The scorer's own arguments.")] = {}
    shown_as: Annotated[str, means("Its name in explanations. Empty: the scorer's own.")] = ""


class PreemptionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How guests of lower priority are evicted for one that fits nowhere; 'place --preempt' turns it on."""

    budgets: Annotated[
        Literal["best_effort", "strict"],
        means("Whether disruption budgets are broken when nothing else helps (best_effort), or never (strict)."),
    ] = "best_effort"
    max_evictions: Annotated[NotNegative, means("How many guests one guest may evict within the window.")] = 1000
    window: Annotated[str, means('How long evictions are remembered, such as "10m".')] = "10m"
    wait: Annotated[str, means("How long a guest waits for those it evicts to leave, before it looks elsewhere.")] = (
        "10m"
    )
    max_repeats: Annotated[
        NotNegative, means("After so many evictions on a host that brought nothing, it is left alone for the window.")
    ] = 3
    max_cascade: Annotated[NotNegative, means("How deep evictions may lead to other evictions within the window.")] = 3
    movable_first: Annotated[
        bool, means("Of guests of equal priority, evict those first that can run on another host now.")
    ] = False
    moves: Annotated[
        bool, means("Move guests instead of ending them, if they can move while they run and there is room for them.")
    ] = False


class AskEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An external scorer that is asked before a decision."""

    name: Annotated[str, means("Who is asked, in a word that the front knows.")]
    timeout: Annotated[str, means('How long an answer may take, such as "500ms".')] = "5s"
    weight: Annotated[Weight, means("What the answered scores are multiplied by.")] = 1
    ignorable: Annotated[bool, means("True: without an answer in time, decide without it. False: try again later.")] = (
        False
    )
    always: Annotated[
        bool, means("True: also about members of gangs, and about hosts that guests are nominated for.")
    ] = False


class MixPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of guest in the typical mix, and its share of all guests."""

    cpu: Annotated[Quantity, means("The cpu that it requests.")]
    device_millis: Annotated[NotNegative, means("How much of each gpu it asks for, in thousandths.")] = 0
    device_count: Annotated[NotNegative, means("How many gpus it asks for.")] = 0
    models: Annotated[list[str], means("Models that will do. Empty: any.")] = []
    share: Annotated[Annotated[float, Meta(ge=0)], means("Its part of all guests; all shares add up to 1.")] = 0.0


class PolicyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named profile; what it leaves out comes from the policy that it extends, else from the defaults."""

    name: Annotated[str, means("Its name, unlike that of any other policy, built-in ones included.")]
    extends: Annotated[
        str, means("Where to take the rest from: a built-in policy, or one that stands before this one.")
    ] = ""
    summary: Annotated[str | UnsetType, means("A line for people; 'hostler policies' shows it.")] = UNSET
    filters: Annotated[
        list[str | PluginEntry], means("Filters to add to the usual ones; one of the same name is replaced.")
    ] = []
    without: Annotated[list[str], means("Usual filters to leave out; resources and devices stay.")] = []
    scorers: Annotated[
        list[str | ScorerEntry] | UnsetType, means("What makes a host better; the weighted scores are summed up.")
    ] = UNSET
    ties: Annotated[
        list[TieKey] | UnsetType,
        means("What decides between hosts of equal score, one after the other; name if unset."),
    ] = UNSET
    devices: Annotated[
        DeviceRule | UnsetType,
        means("Which device a share goes to; lowest if unset. Whole ones are always the lowest."),
    ] = UNSET
    soft_constraints: Annotated[
        SoftRule | UnsetType,
        means("How preferences of guests count. first: before the scores. scored, if unset: by the listed scorers."),
    ] = UNSET
    overcommit: Annotated[
        Quantities | UnsetType,
        means("By how much capacities are multiplied, such as {cpu: 1.5}. A host's own ratio beats it."),
    ] = UNSET
    reserve: Annotated[
        Quantities | UnsetType,
        means("Amounts that every host keeps back, such as {memory: 2Gi}. A host's own reserve beats it."),
    ] = UNSET
    one_guest_per_host: Annotated[bool | UnsetType, means("True: a host takes one guest, whatever its size.")] = UNSET
    preemption: Annotated[
        PreemptionEntry | UnsetType | None, means("How guests of lower priority are evicted. null: never.")
    ] = UNSET
    reclaim: Annotated[
        bool | UnsetType, means("True: a tenant takes back what its quota guarantees from those who borrowed it.")
    ] = UNSET
    ask: Annotated[AskEntry | UnsetType | None, means("The external scorer to ask before each decision.")] = UNSET
    mix: Annotated[
        list[MixPart] | UnsetType, means("The typical guests that fgd measures by. Unset: those of the input.")
    ] = UNSET
