"""The messages between a service and its answer process, over a pipe in each direction.

They are pickled, because questions are functions. Both ends run the same program, and no one else can reach the pipes.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from hostler.control.books.follower import FollowerState
from hostler.control.settings import ControlSettings
from hostler.control.store.history.log import StoredEntry

__all__ = [
    "Alive", "Begin", "EngineQuestion", "FollowEntries", "Message", "OutOfStep", "QuestionFailure",
    "QuestionResult", "WarmUp", "decode", "encode",
]  # fmt: skip


class WarmUp(msgspec.Struct, frozen=True):
    """Load the kernels that questions need."""

    settings: ControlSettings


class Begin(msgspec.Struct, frozen=True):
    """Start from this state and discard the previous one."""

    state: FollowerState


class FollowEntries(msgspec.Struct, frozen=True):
    """Follow the next entries of the log."""

    entries: tuple[StoredEntry, ...]


class EngineQuestion(msgspec.Struct, frozen=True):
    """A question; long ones run beside others. Waiting facts count as known at ``now_ns``."""

    number: int
    question: bytes  # a pickled answerers.Question: one that cannot be read fails alone
    now_ns: int
    is_long: bool


class QuestionResult(msgspec.Struct, frozen=True):
    """What a question returned."""

    number: int
    result: Any


class QuestionFailure(msgspec.Struct, frozen=True):
    """What a question raised, with a traceback if the error is unexpected."""

    number: int
    error: Exception


class OutOfStep(msgspec.Struct, frozen=True):
    """The log could not be followed, so the question was not run: send ``Begin`` first."""

    number: int
    why: str


class Alive(msgspec.Struct, frozen=True):
    """The answer process runs. It is sent every second, even while a question takes long."""


Message = WarmUp | Begin | FollowEntries | EngineQuestion | QuestionResult | QuestionFailure | OutOfStep | Alive


def encode(message: Message) -> bytes:
    """Encode a message."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def decode(data: bytes) -> Message:
    """Decode a message of the other end."""
    message: Message = pickle.loads(data)
    return message
