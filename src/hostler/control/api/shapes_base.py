"""What all shapes have in common: how questions and answers are read and written, and words that stand in many."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["Asked", "Labels", "Name", "Told", "Word"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what clients send: a field that nobody knows is a mistake, and is named."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Base of answers: all keys are there."""


# By itself $ would let a line end follow; \Z, which would not, is unknown to those who read the description.
_WORD = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9_])?$(?!\n)"

Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=_WORD)]
Word = Annotated[str, Meta(min_length=1, max_length=63, pattern=_WORD)]
Labels = Annotated[dict[str, str], Meta(max_length=64)]
