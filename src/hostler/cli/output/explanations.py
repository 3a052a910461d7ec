"""What an explanation says, in tables and lines: hosts with scores or reasons, evictions, gangs, quotas.

Used by ``explain`` and by ``kube candidates``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from hostler.cli.output.decision_texts import number_text, plural
from hostler.cli.output.terminal import Column, print_table, printable, say
from hostler.model import Explanation, GangAdvice, HostVerdict
from hostler.model.explanation_texts import (
    eviction_texts,
    failure_text,
    gang_line,
    gang_texts,
    is_blocked,
    quota_text,
    reasons_text,
    victims_text,
)
from hostler.model.plain_data import explanation_as_data
from hostler.model.policies import TieKey
from hostler.model.vocabulary import ENGINE_WORDS, Vocabulary
from hostler.queries import GuestExplanation

__all__ = [
    "SHOWN",
    "ShownExplanation",
    "explanation_data",
    "gang_line",
    "print_fitting",
    "print_more",
    "print_rejecting",
    "print_scheduler_message",
    "tie_text",
    "victims_text",
]  # fmt: skip

SHOWN = 10  # hosts, victims, or members of a gang, unless all are wanted
SHOWN_TIES = 3  # other hosts of the same score that are named
_TIE_KEYS: dict[TieKey, str] = {
    "fewer_guests": "fewer guests",
    "rank": "rank",
    "name": "name",
    "random": "a random draw",
    "after_last": "the next turn by name",
}


class ShownExplanation(GuestExplanation, frozen=True, kw_only=True):
    """An explanation with what only its front knows: files, a live cluster, a journal or a control plane."""

    said: str = ""  # what the pod's own scheduler wrote, if that is something else
    is_of_files: bool = False  # 'hostler place' could do it
    words: Vocabulary = ENGINE_WORDS  # of its front
    now: str = ""  # the status of a VM, as words that follow its name, if more is known than that it runs
    hint: str = ""  # what can be done about that
    made_way: str = ""  # of a VM that waits since it was stopped for another: why
    moved_for: str = ""  # of a VM that was moved to its host to make room for another: for which
    if_started: bool = False  # of a VM that is stopped: this is how it would be if it were started now
    if_placed_now: str = ""  # of a VM that has a place: the best host, if it were placed now
    pinned: str = ""  # what keeps a VM on one host

    @classmethod
    def of(cls, found: GuestExplanation, *, said: str = "", is_of_files: bool = False) -> Self:
        """Return the answer of a query as it is shown."""
        return cls(**msgspec.structs.asdict(found), said=said, is_of_files=is_of_files)


def explanation_data(explained: ShownExplanation) -> dict[str, object]:
    """Return the explanation object as it is printed."""
    namespace = explained.guest.spec.namespace
    data = explanation_as_data(explained.explanation, namespace, explained.message, explained.eviction)
    data |= {"bound_to": explained.bound_to} if explained.bound_to else {}
    return data | ({"scheduler_says": explained.said} if explained.said else {})


def print_scheduler_message(name: str, said: str) -> None:
    """Print the verdict of the pod's own scheduler if it differs from ours."""
    say(printable(f"{name} waits: its scheduler says {said}"))
    say("It may be configured otherwise than is assumed here: --via asks it itself, --config gives its policies.")


def print_fitting(verdicts: list[HostVerdict], chosen: str, limit: int | None) -> None:
    """Write a table of the hosts that fit, with their scores."""
    plugins = list(dict.fromkeys(score.plugin for verdict in verdicts for score in verdict.scores))
    prefers = any(verdict.preference is not None for verdict in verdicts)
    first: list[Column] = [("PREFERENCE", "right")] if prefers else []
    columns: list[Column] = [("HOST THAT FITS", "left"), *first, ("TOTAL", "right")]
    columns += [(name, "right") for name in plugins]
    rows = []
    for verdict in verdicts[:limit]:
        by_plugin = {score.plugin: score.weighted for score in verdict.scores}
        mark = " *" if verdict.host == chosen else ""
        rows.append(
            [
                f"{verdict.host}{mark}",
                *([number_text(verdict.preference)] if prefers else []),
                number_text(verdict.total),
                *(number_text(by_plugin.get(name)) for name in plugins),
            ]
        )
    say()
    print_table(columns, rows)
    _print_rest(len(verdicts), limit)


def print_rejecting(verdicts: list[HostVerdict], limit: int | None, words: Vocabulary = ENGINE_WORDS) -> None:
    """Write a table of the hosts that do not fit, with all reasons."""
    say()
    columns: list[Column] = [("HOST THAT DOES NOT FIT", "left"), ("WHY", "left")]
    print_table(
        columns, [[v.host, "; ".join(failure_text(one, words) for one in v.failures)] for v in verdicts[:limit]]
    )
    _print_rest(len(verdicts), limit)


def _print_rest(count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        say(f"… and {count - limit:,} more; -o wide shows all")


def print_more(
    explanation: Explanation, *, is_wide: bool, is_of_files: bool = True, words: Vocabulary = ENGINE_WORDS
) -> None:
    """Print what is there of all this, each part after an empty line."""
    limit = None if is_wide else SHOWN
    if explanation.quota:
        say()
        say(printable(quota_text(explanation.quota, words)))
    if explanation.gang is not None:
        say()
        _print_gang(explanation.gang, limit, words)
    if explanation.eviction is not None:
        say()
        for line in eviction_texts(explanation.eviction, words, limit):
            say(printable(line))
        if is_of_files and explanation.eviction.host and not is_blocked(explanation.eviction):
            say("'hostler place --preempt' does it.")  # the flag turns evictions on for policies that have none, too


def _print_gang(advice: GangAdvice, limit: int | None, words: Vocabulary) -> None:
    for line in gang_texts(advice):
        say(printable(line))
    if not advice.members:
        return
    columns: list[Column] = [("MEMBER", "left"), ("WOULD GO TO", "left"), ("WHY NOT", "left")]
    shown = advice.members[:limit]
    print_table(columns, [[one.guest, one.host or "-", reasons_text(one.reasons, words)] for one in shown])
    if len(shown) < len(advice.members):
        say(f"… and {len(advice.members) - len(shown):,} more; -o wide shows all")


def tie_text(ties: Sequence[TieKey], fitting: Sequence[HostVerdict], chosen: str) -> str:
    """Say how a host was chosen among those with the same total; empty when there was no other."""
    own = next((verdict for verdict in fitting if verdict.host == chosen), None)
    if own is None:
        return ""
    score = (own.preference, own.total)
    equal = [verdict.host for verdict in fitting if (verdict.preference, verdict.total) == score]
    others = [host for host in equal if host != chosen]
    if not others:
        return ""
    if ties and ties[0] == "random":
        return f"drawn at random from {plural(len(others) + 1, 'host')}"
    if ties and ties[0] == "after_last":
        return "the next by name after the last turn"
    named = ", ".join(others[:SHOWN_TIES]) + (
        f" and {len(others) - SHOWN_TIES:,} more" if len(others) > SHOWN_TIES else ""
    )
    at = f" at {number_text(own.total)}" if own.scores else ""
    return f"ties with {named}{at}, decided by {', then '.join(_tie_keys(ties))}"


def _tie_keys(ties: Sequence[TieKey]) -> list[str]:
    """Name the keys up to the first that leaves no equals; the name always comes last."""
    words: list[str] = []
    for key in (*ties, "name"):
        words.append(_TIE_KEYS[key])
        if key in ("random", "after_last", "name"):
            break
    return words
