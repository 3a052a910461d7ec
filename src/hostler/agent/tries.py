"""How often an agent tried something, by what came of it: a loop that gets nowhere is seen from outside. Pure.

Used by ``worker``, which counts, and ``process``, which tells with each report what was not told yet.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Tries, Trouble

__all__ = ["counted", "since"]


def counted(tries: Tries, trouble: Trouble | None) -> Tries:
    """Return the counts with one try more."""
    kind = trouble.kind if trouble is not None else "done"
    return msgspec.structs.replace(tries, **{kind: getattr(tries, kind) + 1})


def since(told: Tries, now: Tries) -> Tries | None:
    """Return what was tried since; None where that is nothing."""
    kinds = Tries.__struct_fields__
    return Tries(**{kind: getattr(now, kind) - getattr(told, kind) for kind in kinds}) if now != told else None
