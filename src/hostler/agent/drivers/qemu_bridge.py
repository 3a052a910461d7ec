"""A tap on a bridge, handed to QEMU as an open descriptor: QEMU itself never needs the right to make one.

The tap lives as long as somebody holds it open, so it goes with its VM.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from hostler.agent.drivers.driver import BlockedError

__all__ = ["can_make_taps", "open_tap"]

_TUN = Path("/dev/net/tun")
# linux/if_tun.h and linux/sockios.h
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCGIFINDEX, _SIOCBRADDIF, _SIOCSIFFLAGS, _IFF_UP = 0x8933, 0x89A2, 0x8914, 0x1


def can_make_taps() -> bool:
    """Say whether this process may make taps."""
    return os.geteuid() == 0 and _TUN.exists()


def open_tap(bridge: str) -> int:
    """Make a tap, put it on the bridge and return its descriptor; whoever gets it closes it."""
    try:
        descriptor = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", b"", _IFF_TAP | _IFF_NO_PI)
            tap = fcntl.ioctl(descriptor, _TUNSETIFF, request)[:16].rstrip(b"\0")
            _join(tap, bridge.encode())
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise BlockedError(
            f"no tap on the bridge {bridge}: {error}", hint="is the bridge there? `ip link show type bridge`"
        ) from error
    return descriptor


def _join(tap: bytes, bridge: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        (index,) = struct.unpack("16xi20x", fcntl.ioctl(control, _SIOCGIFINDEX, struct.pack("16s24x", tap)))
        fcntl.ioctl(control, _SIOCBRADDIF, struct.pack("16si20x", bridge, index))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", tap, _IFF_UP))
