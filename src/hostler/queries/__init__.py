"""Questions to an engine, the same for commands, services and Python programs.

``inputs`` has the values that a placement starts from. ``placement``, ``explanations``, ``capacity`` and ``fleet_size``
run an engine on them to the end. ``what_ifs`` tries changes on a twin of a live engine. All of them step the engine by
the loop in ``runs``.
``mixes`` makes the typical mix for policies that need one. Everything here is pure: no clock, no files, no network.
No query changes what it is given, except where its docstring says that the engine is used up.

The public names are those below; ``docs/guides/python-api.md`` shows them at work.
"""

from hostler.queries.advice import input_advice
from hostler.queries.capacity import Fit, count_copies
from hostler.queries.explanations import DescribeWait, GuestExplanation, explain_guest, explain_recorded_guest
from hostler.queries.fleet_size import FleetSize, Misfit, size_fleet
from hostler.queries.inputs import (
    PlacementInput,
    apply_input,
    apply_members,
    apply_tenancy,
    display_name,
    find_guest,
    is_pending,
    open_engine,
    with_preemption,
)
from hostler.queries.journal_guests import GuestDeparture
from hostler.queries.mixes import MixRenewal, needs_mix, with_mixes, with_placed_mixes
from hostler.queries.placement import (
    OverfullHost,
    Placement,
    PlacementSummary,
    ResourceShare,
    find_overfull_hosts,
    place_guests,
)
from hostler.queries.preemptions import BudgetCount, Eviction, Nomination, Preemptions
from hostler.queries.runs import (
    Advance,
    Carrier,
    ChunkCarrier,
    Driver,
    Observe,
    UnattendedCarrier,
    decide_all,
    decide_once,
    run_until_idle,
)
from hostler.queries.what_ifs import TriedEviction, WhatIfOutcome, try_at_once, try_to_the_end

__all__ = [
    "Advance", "BudgetCount", "Carrier", "ChunkCarrier", "DescribeWait", "Driver", "Eviction", "Fit", "FleetSize",
    "GuestDeparture", "GuestExplanation", "Misfit", "MixRenewal", "Nomination", "Observe", "OverfullHost", "Placement",
    "PlacementInput", "PlacementSummary", "Preemptions", "ResourceShare", "TriedEviction", "UnattendedCarrier",
    "WhatIfOutcome", "apply_input", "apply_members", "apply_tenancy", "count_copies", "decide_all", "decide_once",
    "display_name", "explain_guest", "explain_recorded_guest", "find_guest", "find_overfull_hosts", "input_advice",
    "is_pending", "needs_mix", "open_engine", "place_guests", "run_until_idle", "size_fleet", "try_at_once",
    "try_to_the_end", "with_mixes", "with_placed_mixes", "with_preemption",
]  # fmt: skip
