"""Random numbers from counters instead of a stream: a draw depends only on (seed, guest, attempt, purpose).

So batches, forks and replays do not shift each other's draws. The mixing function is splitmix64's finalizer;
``kernels.devices.mix64`` is the same for kernels. Invariant: the functions here must never change, because journals
replay with them.
"""

from __future__ import annotations

from hashlib import blake2b

from hostler.model import Gang, Guest, Host

__all__ = ["BACKOFF", "PLACEMENT", "draw", "gang_key", "guest_key", "host_key", "mix64", "name_hash"]

_MASK = (1 << 64) - 1
PLACEMENT = 1
BACKOFF = 2


def mix64(x: int) -> int:
    """Return splitmix64's finalizer of an unsigned 64-bit number."""
    z = (x + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def name_hash(name: str) -> int:
    """Hash a name to 64 bits, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def guest_key(guest: Guest) -> int:
    """Return what identifies a guest to the random draws."""
    return guest.draw_key if guest.draw_key is not None else name_hash(guest.uid)


def gang_key(gang: Gang) -> int:
    """Return what identifies a gang to the random draws."""
    return gang.draw_key if gang.draw_key is not None else name_hash(gang.key)


def host_key(host: Host) -> int:
    """Return what identifies a host to the random draws."""
    return host.draw_key if host.draw_key is not None else name_hash(host.name)


def draw(seed: int, key: int, attempt: int, purpose: int) -> int:
    """Return a 64-bit number for one guest, attempt and purpose."""
    return mix64(mix64(mix64(seed & _MASK) ^ (key & _MASK)) ^ (attempt * 4 + purpose))
