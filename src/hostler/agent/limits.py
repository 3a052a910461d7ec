"""How much an agent says at most: it keeps to this by itself, and the control plane takes no more. Pure."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble

__all__ = ["LONGEST_NAME", "LONGEST_TEXT", "MOST_TAKEN", "MOST_UNKNOWN", "MOST_VMS"]
__all__ += ["shortened", "shortened_trouble"]

LONGEST_NAME = 253  # characters of whatever names something
LONGEST_TEXT = 1000  # characters of whatever people read
MOST_VMS = 10_000  # of one host, in one message
MOST_TAKEN = 2**62  # of one resource by one VM: the engine counts no further
MOST_UNKNOWN = 1000  # VMs that are told of although nobody ordered them


def shortened(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text of so many characters at most; an ellipsis says that there was more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shortened_trouble(trouble: Trouble) -> Trouble:
    """Return a trouble whose texts are not too long for those who keep and show them."""
    message, hint = shortened(trouble.message), shortened(trouble.hint)
    if (message, hint) == (trouble.message, trouble.hint):
        return trouble
    return msgspec.structs.replace(trouble, message=message, hint=hint)
