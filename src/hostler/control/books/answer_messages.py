"""What a service and its answer process say to each other, through a pipe each way.

Messages are pickled, since questions are functions: both ends are one program, and nobody else reaches the pipes.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from hostler.control.books.follower import FollowerState
from hostler.control.settings import ControlSettings
from hostler.control.store.log import Entry

__all__ = ["Alive", "Answer", "Ask", "Begin", "Failed", "Message", "OutOfStep", "Read", "WarmUp", "decode", "encode"]


class WarmUp(msgspec.Struct, frozen=True):
    """Load the kernels that questions need."""

    settings: ControlSettings


class Begin(msgspec.Struct, frozen=True):
    """Go on from here, whatever is known."""

    state: FollowerState


class Read(msgspec.Struct, frozen=True):
    """Follow the next entries of the log."""

    entries: tuple[Entry, ...]


class Ask(msgspec.Struct, frozen=True):
    """Answer a question, beside others if it takes long. Facts that wait for a step count as known at ``now_ns``."""

    number: int
    question: bytes  # a pickled answerers.Question: one that cannot be read fails alone
    now_ns: int
    is_long: bool


class Answer(msgspec.Struct, frozen=True):
    """What a question returned."""

    number: int
    result: Any


class Failed(msgspec.Struct, frozen=True):
    """What a question raised, with a traceback if it is no error that is raised on purpose."""

    number: int
    error: Exception


class OutOfStep(msgspec.Struct, frozen=True):
    """The log could not be followed, so the question was not asked: ``Begin`` is needed first."""

    number: int
    why: str


class Alive(msgspec.Struct, frozen=True):
    """The answer process runs; sent every second, also while a question takes long."""


Message = WarmUp | Begin | Read | Ask | Answer | Failed | OutOfStep | Alive


def encode(message: Message) -> bytes:
    """Return a message as bytes."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def decode(data: bytes) -> Message:
    """Read a message of the other end."""
    message: Message = pickle.loads(data)
    return message
