"""What all shapes have in common: how questions and answers are read and written, and words that stand in many."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hostler.control.vms.names import NAME_PATTERN

__all__ = ["Asked", "Labels", "Name", "Told", "Word"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what clients send: a field that nobody knows is a mistake, and is named."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Base of answers: all keys are there."""


Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME_PATTERN)]
Word = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME_PATTERN)]
Labels = Annotated[dict[str, str], Meta(max_length=64)]
