"""What an explanation says, in tables and lines: hosts with scores or reasons, evictions, gangs, quotas.

Used by ``explain`` and by ``kube candidates``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.cli.terminal import Column, print_table, printable, say
from hostler.cli.wording import failure_text, number_text, plural, reasons_text
from hostler.engine.eviction_advice import EVICTS_NOBODY
from hostler.model import EvictionAdvice, Explanation, GangAdvice, HostVerdict

__all__ = ["SHOWN", "gang_line", "print_fitting", "print_more", "print_other_word", "print_refusing", "victims_text"]

SHOWN = 10  # hosts, victims, or members of a gang, unless all are wanted


def print_other_word(name: str, said: str) -> None:
    """Say first what a pod's own scheduler says, where that is not what we find."""
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


def print_refusing(verdicts: list[HostVerdict], limit: int | None) -> None:
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
    """Name those who would be evicted, the first few of them."""
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
    if advice.why_not and advice.why_not != EVICTS_NOBODY:
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
        say(printable(f"What binds: {advice.binding}."))
    if not advice.members:
        return
    columns: list[Column] = [("MEMBER", "left"), ("WOULD GO TO", "left"), ("WHY NOT", "left")]
    shown = advice.members[:limit]
    print_table(columns, [[one.guest, one.host or "-", reasons_text(one.reasons)] for one in shown])
    if len(shown) < len(advice.members):
        say(f"… and {len(advice.members) - len(shown):,} more; -o wide shows all")
