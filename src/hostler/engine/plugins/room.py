"""Filters ``resources`` and ``devices``: enough of everything is free. The checks themselves run inside the kernels."""

from __future__ import annotations

from hostler.engine.framework import Wake


class Resources:
    """Keep a guest off hosts that lack any amount it asks for."""

    name = "resources"
    check = 0
    cures = frozenset({Wake.ROOM_FREED, Wake.HOST_GREW, Wake.HOST_JOINED, Wake.GUEST_CHANGED})


class Devices:
    """Keep a guest off hosts that lack devices of its kind, model and size."""

    name = "devices"
    check = 1
    cures = frozenset({Wake.ROOM_FREED, Wake.HOST_GREW, Wake.HOST_JOINED, Wake.GUEST_CHANGED})
