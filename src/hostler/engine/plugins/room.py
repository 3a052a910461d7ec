"""Filters ``resources`` and ``devices``: all requested amounts and devices are free.

The checks run inside the kernels, for every policy: no decision may exceed what a host may give.
"""

from __future__ import annotations

from hostler.model.reasons import ReasonKind, Wake, join_cures

_CURES = frozenset({Wake.ROOM_FREED, Wake.HOST_GREW, Wake.HOST_JOINED, Wake.GUEST_CHANGED})


class Resources:
    """Keep a guest off hosts that lack an amount it requests."""

    name = "resources"
    reasons = (
        ReasonKind(
            plugin="resources",
            code="insufficient",
            meaning="The host has too little of a resource free for what the guest requests.",
            subject="resource",
            is_resolvable=True,
            cures=_CURES,
        ),
    )
    cures = join_cures(reasons)


class Devices:
    """Keep a guest off hosts that lack devices of its kind, model and size."""

    name = "devices"
    reasons = (
        ReasonKind(
            plugin="devices",
            code="no_device",
            meaning="The host has no device of this kind.",
            subject="device kind",
            is_resolvable=False,
            cures=_CURES,
        ),
        ReasonKind(
            plugin="devices",
            code="wrong_device_model",
            meaning="The host has devices of this kind, but of no model that the guest accepts.",
            subject="device kind",
            is_resolvable=False,
            cures=_CURES,
        ),
        ReasonKind(
            plugin="devices",
            code="insufficient_devices",
            meaning="Too few devices of this kind are free, or no single one has enough left.",
            subject="device kind",
            is_resolvable=True,
            cures=_CURES,
        ),
    )
    cures = join_cures(reasons)
