"""How often an agent tried something, by outcome, so that a loop without progress is visible in metrics. Pure.

``worker`` counts. ``process`` sends with each report what was not reported yet.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Tries, Trouble

__all__ = ["count_try", "tries_since"]


def count_try(tries: Tries, trouble: Trouble | None) -> Tries:
    """Return the counts with one more try."""
    kind = trouble.kind if trouble is not None else "done"
    return msgspec.structs.replace(tries, **{kind: getattr(tries, kind) + 1})


def tries_since(told: Tries, now: Tries) -> Tries | None:
    """Return the tries since the last report; None if there are none."""
    kinds = Tries.__struct_fields__
    return Tries(**{kind: getattr(now, kind) - getattr(told, kind) for kind in kinds}) if now != told else None
