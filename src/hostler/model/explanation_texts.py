"""The sentences of explanations: what hosts lack, what would help, how a gang stands. One source for every front.

Commands and pages arrange these sentences, but write none of their own for the same facts. Each takes the words of its
front. Amounts are written as files have them (``500m``, ``23.5Gi``), so that a sentence is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostler.model.decisions import Cure, EvictionAdvice, Failure, GangAdvice, Reason, ReasonCount
from hostler.model.notes import EVICTS_NOBODY
from hostler.model.resources import GUESTS, format_devices, format_resource
from hostler.model.vocabulary import ENGINE_WORDS, Vocabulary, plural, reason_text

__all__ = [
    "NO_CURE", "TRIED_AGAIN", "cure_text", "eviction_texts", "failure_text", "gang_line", "gang_texts", "is_blocked",
    "quota_text", "readable_amount", "reasons_text", "takers_text", "victims_text",
]  # fmt: skip

MAX_REASONS = 6  # in one line
SHOWN_VICTIMS = 10
NO_CURE = "No change of up to three parts would help."
TRIED_AGAIN = "It is tried again when one of these happens:"
_ROOM = ("resources", "devices")  # the filters that what is held for others can fail
_SPREAD = "spread"  # the filter whose amounts are guests
_DEVICES = "devices"  # the filter whose amounts are thousandths of a device
_LONG = 5  # digits; more are not read at a glance
_UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_WITHOUT_AMOUNTS = ("no_device", "wrong_device_model")  # nothing to count: it is the kind or model that lacks


def readable_amount(resource: str, amount: int) -> str:
    """Write an amount for people: exact if that is short, else in bytes with at most one decimal: ``23.5Gi``."""
    exact = format_resource(resource, amount)
    is_bytes = format_resource(resource, 1024) == "1Ki"
    if not is_bytes or sum(map(str.isdigit, exact)) < _LONG:
        return exact
    suffix, unit = next(((suffix, unit) for suffix, unit in _UNITS if abs(amount) >= unit), ("", 1))
    return f"{amount / unit:.1f}".removesuffix(".0") + suffix


def takers_text(fitting: int, hosts: int) -> str:
    """Count the hosts that would take a guest: ``2 of 3 hosts would take it``."""
    return f"{fitting:,} of {plural(hosts, 'host')} would take it"


def reasons_text(counts: Sequence[ReasonCount], words: Vocabulary = ENGINE_WORDS) -> str:
    """Write the reasons of many hosts, the first few of them: ``7 insufficient cpu, 5 cordoned``."""
    shown = [f"{count.hosts:,} {reason_text(count.reason, words)}" for count in counts[:MAX_REASONS]]
    if len(counts) > MAX_REASONS:
        shown.append(f"{sum(count.hosts for count in counts[MAX_REASONS:]):,} for other reasons")
    return ", ".join(shown)


def failure_text(failure: Failure, words: Vocabulary = ENGINE_WORDS) -> str:
    """Return what one filter of one host lacks, in the units of the cure."""
    text = reason_text(failure.reason, words)
    if failure.by and failure.reason.plugin not in _ROOM:
        return f"{text} (in the way: {', '.join(failure.by)})"
    held = f" ({_held_text(failure)})" if failure.by else ""
    if failure.reason.plugin == _SPREAD and failure.needed is not None:
        return f"{text}: it would be {failure.needed}"
    if failure.needed is None or failure.missing is None or failure.reason.code in _WITHOUT_AMOUNTS:
        return text + held
    if _is_about_count(failure.reason):
        return text + held  # it is always one that is missing
    subject = failure.reason.subject
    if failure.reason.plugin == _DEVICES:
        return f"{text}: {format_devices(failure.missing)} of {format_devices(failure.needed)} missing"
    if failure.free is not None and failure.free < 0:
        asked, excess = readable_amount(subject, failure.needed), readable_amount(subject, -failure.free)
        problem = held or f" ({excess} too many booked)"
        return f"{text}: asks {asked}, nothing free{problem}"
    missing, needed = readable_amount(subject, failure.missing), readable_amount(subject, failure.needed)
    return f"{text}: {missing} of {needed} missing{held}"


def _is_about_count(reason: Reason) -> bool:
    """Say whether a host has as many guests as it may have; to the engine that is a resource like any other."""
    return (reason.code, reason.subject) == ("insufficient", GUESTS)


def _held_text(failure: Failure) -> str:
    """Return who holds room that a guest lacks: ``3 held by reservation night``, ``held for gang crew``."""
    words = [name.replace(":", " ", 1).replace("gang default/", "gang ") for name in failure.by]
    owners = ", ".join(f"{'by' if word.startswith('reservation ') else 'for'} {word}" for word in words)
    return (
        f"{readable_amount(failure.reason.subject, failure.held)} held {owners}" if failure.held else f"held {owners}"
    )


def quota_text(quota: str, words: Vocabulary = ENGINE_WORDS) -> str:
    """Say that a quota has no room for a guest."""
    return f"Its {words.tenant}'s quota has no room for it: {quota}."


def cure_text(cure: Cure) -> str:
    """Say which smallest change would let a guest in."""
    changes = " and ".join(change.text for change in cure.changes)
    return f"It would fit on {cure.host} after the smallest change: {changes}."


def victims_text(advice: EvictionAdvice, limit: int | None = SHOWN_VICTIMS) -> str:
    """Name the guests that would be evicted, at most the first few."""
    victims = ", ".join(advice.victims[:limit])
    if limit is not None and len(advice.victims) > limit:
        victims += f" and {len(advice.victims) - limit:,} more"
    return victims


def eviction_texts(
    advice: EvictionAdvice, words: Vocabulary = ENGINE_WORDS, limit: int | None = SHOWN_VICTIMS
) -> Iterator[str]:
    """Say which evictions would make room, at what cost, and why they are not done; or why none helps."""
    whom = f" for the gang {advice.gang}" if advice.gang else ""
    if not advice.host:
        yield f"No eviction by priority helps{whom}: {advice.why_not}."
        return
    victims = victims_text(advice, limit)
    if advice.tenant:
        yield (
            f"Room could be reclaimed{whom} on {advice.host} by evicting {victims} "
            f"of {words.tenant} {advice.tenant}, which has more than it is guaranteed."
        )
    else:
        cost = f"highest priority {advice.highest_priority}"
        if advice.broken_budgets:
            cost += f", {plural(advice.broken_budgets, 'disruption budget')} broken"
        yield f"Room could be made{whom} on {advice.host} by evicting {victims} ({cost})."
    if advice.hosts > 1 and not advice.gang:
        yield f"It is the cheapest of {plural(advice.hosts, 'host')} where evictions help."
    if is_blocked(advice):
        yield f"It is not done: {advice.why_not}."


def is_blocked(advice: EvictionAdvice) -> bool:
    """Return whether evictions would help and are not done, for another reason than a policy without evictions."""
    return bool(advice.why_not) and {one.code for one in advice.obstacles} != {EVICTS_NOBODY}


def gang_line(advice: GangAdvice) -> str:
    """Say how a gang stands."""
    where = f" in the domain {advice.domain}" if advice.domain else ""
    need = f", of at least {advice.min_count}" if advice.min_count else ""
    fit = f"; {advice.would_place} would fit now{where}" if advice.members else ""
    return f"Its gang {advice.gang}: {advice.placed} placed{need}{fit}."


def gang_texts(advice: GangAdvice) -> Iterator[str]:
    """Say how a gang stands, and what stops it."""
    yield gang_line(advice)
    if advice.binding:
        yield f"What stops it: {advice.binding}."
