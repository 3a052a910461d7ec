"""What an explanation says, in tables and lines: hosts with scores or reasons, evictions, gangs, quotas.

Used by ``explain`` and by ``kube candidates``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import msgspec

from hostler.cli.output.decision_texts import failure_text, number_text, plural, reasons_text
from hostler.cli.output.terminal import Column, print_table, printable, say
from hostler.model import EvictionAdvice, Explanation, GangAdvice, HostVerdict
from hostler.model.notes import EVICTS_NOBODY
from hostler.model.plain_data import explanation_as_data
from hostler.model.policies import TieKey
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
    owner: str = "tenant"  # what those are called there whose quotas count
    now: str = ""  # how a VM is, in words that go on after its name, if more is known than that it runs
    hint: str = ""  # what can be done about that
    made_way: str = ""  # of a VM that waits since it was stopped for another: why
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
    columns: list[Column] = [("HOST THAT FITS", "left"), ("TOTAL", "right"), *((name, "right") for name in plugins)]
    rows = []
    for verdict in verdicts[:limit]:
        by_plugin = {score.plugin: score.weighted for score in verdict.scores}
        mark = " *" if verdict.host == chosen else ""
        rows.append(
            [
                f"{verdict.host}{mark}",
                number_text(verdict.total),
                *(number_text(by_plugin.get(name)) for name in plugins),
            ]
        )
    say()
    print_table(columns, rows)
    _print_rest(len(verdicts), limit)


def print_rejecting(verdicts: list[HostVerdict], limit: int | None) -> None:
    """Write a table of the hosts that do not fit, with all reasons."""
    say()
    columns: list[Column] = [("HOST THAT DOES NOT FIT", "left"), ("WHY", "left")]
    print_table(columns, [[v.host, "; ".join(map(failure_text, v.failures))] for v in verdicts[:limit]])
    _print_rest(len(verdicts), limit)


def _print_rest(count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        say(f"… and {count - limit:,} more; -o wide shows all")


def print_more(explanation: Explanation, *, is_wide: bool, is_of_files: bool = True, owner: str = "tenant") -> None:
    """Print what is there of all this, each part after an empty line; ``owner`` is the word for whose quotas count."""
    limit = None if is_wide else SHOWN
    if explanation.quota:
        say()
        say(printable(f"Its {owner}'s quota has no room for it: {explanation.quota}."))
    if explanation.gang is not None:
        say()
        _print_gang(explanation.gang, limit)
    if explanation.eviction is not None:
        say()
        for line in _eviction_lines(explanation.eviction, limit, is_of_files=is_of_files, owner=owner):
            say(printable(line))


def victims_text(advice: EvictionAdvice, limit: int | None = SHOWN) -> str:
    """Name the guests that would be evicted, at most the first few."""
    victims = ", ".join(advice.victims[:limit])
    if limit is not None and len(advice.victims) > limit:
        victims += f" and {len(advice.victims) - limit:,} more"
    return victims


def _eviction_lines(advice: EvictionAdvice, limit: int | None, *, is_of_files: bool, owner: str) -> Iterator[str]:
    whom = f" for the gang {advice.gang}" if advice.gang else ""
    if not advice.host:
        yield f"No eviction by priority helps{whom}: {advice.why_not}."
        return
    victims = victims_text(advice, limit)
    if advice.tenant:
        yield (
            f"Room could be reclaimed{whom} on {advice.host} by evicting {victims} "
            f"of {owner} {advice.tenant}, which has more than it is guaranteed."
        )
    else:
        cost = f"highest priority {advice.highest_priority}"
        if advice.broken_budgets:
            cost += f", {plural(advice.broken_budgets, 'disruption budget')} broken"
        yield f"Room could be made{whom} on {advice.host} by evicting {victims} ({cost})."
    if advice.hosts > 1 and not advice.gang:
        yield f"It is the cheapest of {plural(advice.hosts, 'host')} where evictions help."
    if advice.why_not and {one.code for one in advice.obstacles} != {EVICTS_NOBODY}:
        yield f"It is not done: {advice.why_not}."
    elif is_of_files:  # the flag turns evictions on for policies that have none, too
        yield "'hostler place --preempt' does it."


def gang_line(advice: GangAdvice) -> str:
    """Say how a gang stands."""
    where = f" in the domain {advice.domain}" if advice.domain else ""
    need = f", of at least {advice.min_count}" if advice.min_count else ""
    fit = f"; {advice.would_place} would fit now{where}" if advice.members else ""
    return f"Its gang {advice.gang}: {advice.placed} placed{need}{fit}."


def _print_gang(advice: GangAdvice, limit: int | None) -> None:
    say(printable(gang_line(advice)))
    if advice.binding:
        say(printable(f"What stops it: {advice.binding}."))
    if not advice.members:
        return
    columns: list[Column] = [("MEMBER", "left"), ("WOULD GO TO", "left"), ("WHY NOT", "left")]
    shown = advice.members[:limit]
    print_table(columns, [[one.guest, one.host or "-", reasons_text(one.reasons)] for one in shown])
    if len(shown) < len(advice.members):
        say(f"… and {len(advice.members) - len(shown):,} more; -o wide shows all")


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
