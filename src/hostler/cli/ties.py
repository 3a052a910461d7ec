"""How the choice among equals ended, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.cli.wording import number_text, plural
from hostler.model import HostVerdict
from hostler.model.policies import TieKey

__all__ = ["tie_text"]

SHOWN = 3  # other hosts that are named
_WORDS: dict[TieKey, str] = {
    "fewer_guests": "fewer guests",
    "rank": "rank",
    "name": "name",
    "random": "a random draw",
    "after_last": "the next turn by name",
}


def tie_text(ties: Sequence[TieKey], fitting: Sequence[HostVerdict], chosen: str) -> str:
    """Say how a host was chosen among those with the same total; empty when there was no other."""
    own = next((verdict for verdict in fitting if verdict.host == chosen), None)
    if own is None:
        return ""
    others = [verdict.host for verdict in fitting if verdict.total == own.total and verdict.host != chosen]
    if not others:
        return ""
    if ties and ties[0] == "random":
        return f"drawn at random from {plural(len(others) + 1, 'host')}"
    if ties and ties[0] == "after_last":
        return "the next by name after the last turn"
    named = ", ".join(others[:SHOWN]) + (f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else "")
    at = f" at {number_text(own.total)}" if own.scores else ""
    return f"ties with {named}{at}, decided by {', then '.join(_keys(ties))}"


def _keys(ties: Sequence[TieKey]) -> list[str]:
    """Name the keys up to the first that leaves no equals; the name always comes last."""
    words: list[str] = []
    for key in (*ties, "name"):
        words.append(_WORDS[key])
        if key in ("random", "after_last", "name"):
            break
    return words
