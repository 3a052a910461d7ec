"""Filters ``resources`` and ``devices``: enough of everything is free.

The checks run inside the kernels, for every policy: no decision may exceed what a host may give.
"""

from __future__ import annotations

from hostler.engine.framework import Wake


class Resources:
    """Keep a guest off hosts that lack any amount it asks for."""

    name = "resources"
    cures = frozenset({Wake.ROOM_FREED, Wake.HOST_GREW, Wake.HOST_JOINED, Wake.GUEST_CHANGED})


class Devices:
    """Keep a guest off hosts that lack devices of its kind, model and size."""

    name = "devices"
    cures = frozenset({Wake.ROOM_FREED, Wake.HOST_GREW, Wake.HOST_JOINED, Wake.GUEST_CHANGED})
