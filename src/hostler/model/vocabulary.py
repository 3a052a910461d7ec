"""The words of each front, and the functions that turn codes into text.

The engine uses codes: reasons, notes, wake events, obstacles to evictions. The words of a front are one ``Vocabulary``,
and texts are made from codes as late as possible. Invariant: no code may read a text to learn its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from hostler.model.decisions import Decision, DecisionNote, EvictionObstacle, Explanation, GangAdvice, Reason, WakeEvent
from hostler.model.notes import NOTE_TEXTS, OBSTACLE_TEXTS
from hostler.model.reasons import (
    GANG_DECLARED,
    HIDDEN_RESERVATION_ENDS,
    MEMBER_ARRIVES,
    MEMBER_LEAVES,
    QUOTA_FREED,
    RESERVATION_ENDS,
    Wake,
)
from hostler.model.resources import GUESTS

__all__ = [
    "ENGINE_WORDS", "FILE_WORDS", "VM_WORDS", "WAKE_TEXTS", "Vocabulary", "binding_text", "note_text", "notes_text",
    "obstacles_text", "plural", "reason_text", "render_explanation", "render_wakes", "with_notes",
]  # fmt: skip


_UNSUPPORTED = "unsupported"  # the plugin that rejects what a front cannot do, or not yet


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """A front's words for guests, hosts, tenants and so on."""

    guest: str = "guest"
    guests: str = "guests"
    tenant: str = "tenant"
    bind: str = "bind"
    or_bind_fails: str = ", or a bind fails"  # nothing if the front carries out nothing, so that nothing can fail

    def render(self, text: str, subject: str = "", **values: object) -> str:
        """Return a declared text in these words; ``subject`` and other values are names and stay unchanged."""
        words = msgspec.structs.asdict(self)
        return text.format(**words, subject=subject, **values)


ENGINE_WORDS: Final = Vocabulary()
VM_WORDS: Final = Vocabulary(
    guest="VM", guests="VMs", tenant="project", bind="placement", or_bind_fails=", or a placement fails"
)
# For input from files: nothing is carried out.
FILE_WORDS: Final = Vocabulary(bind="placement", or_bind_fails="")

WAKE_TEXTS: Final[Mapping[str, str]] = {
    Wake.HOST_JOINED: "a host joins",
    Wake.ROOM_FREED: "a {guest} leaves or shrinks{or_bind_fails}",
    Wake.GUEST_PLACED: "another {guest} is placed",
    Wake.HOST_GREW: "a host's limits or devices grow",
    Wake.MARKS_CHANGED: "a host's labels, taints or cordon change",
    Wake.GUEST_CHANGED: "the {guest} itself, or what it refers to, changes",
    Wake.POLICY_CHANGED: "the policies change",
    QUOTA_FREED: "a {guest} of a {tenant} with a quota leaves, or the quotas change",
    GANG_DECLARED: "its gang is declared",
    MEMBER_ARRIVES: "another member of its gang arrives",
    MEMBER_LEAVES: "a member of its gang leaves",
    RESERVATION_ENDS: "reservation {subject} ends",
    HIDDEN_RESERVATION_ENDS: "a reservation of another {tenant} ends",
}


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 host``, ``2,000 hosts``, ``3 entries``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def reason_text(reason: Reason, words: Vocabulary = ENGINE_WORDS) -> str:
    """Write a reason without punctuation: ``insufficient cpu``, but for guests not ``insufficient guests``."""
    if (reason.code, reason.subject) == ("insufficient", GUESTS):
        return f"too many {words.guests}"
    if reason.plugin == _UNSUPPORTED and " " in reason.subject:
        return reason.subject  # a sentence of its own
    text = "insufficient" if reason.code == "insufficient_devices" else reason.code.replace("_", " ")
    return f"{text} {reason.subject}" if reason.subject else text


def render_wakes(events: Iterable[WakeEvent], words: Vocabulary) -> tuple[str, ...]:
    """Return the events that would wake a guest, in the words of a front."""
    return tuple(words.render(WAKE_TEXTS[event.code], event.subject) for event in events)


def obstacles_text(obstacles: Iterable[EvictionObstacle], words: Vocabulary = ENGINE_WORDS) -> str:
    """Write what prevents evictions from helping, and on how many hosts each, in the words of a front."""
    return "; ".join(_obstacle_text(one, words) for one in obstacles)


def _obstacle_text(obstacle: EvictionObstacle, words: Vocabulary) -> str:
    text = words.render(OBSTACLE_TEXTS[obstacle.code])
    return f"{obstacle.hosts} host{'s' * (obstacle.hosts != 1)}: {text}" if obstacle.hosts else text


def note_text(note: DecisionNote, words: Vocabulary = ENGINE_WORDS) -> str:
    """Write a note of a decision in the words of a front; an unknown code is shown unchanged."""
    declared = NOTE_TEXTS.get(note.code, "")
    counted: dict[str, object] = {"count": note.count, "total": note.total, "hosts": plural(note.count, "host")}
    text = words.render(declared, note.subject, said=note.said, **counted) or note.code.replace("_", " ")
    where = f" in {note.place}" if note.place else ""
    return f"{text}{where}: {note.said}" if note.said and "{said}" not in declared else f"{text}{where}"


def notes_text(notes: Iterable[DecisionNote], words: Vocabulary = ENGINE_WORDS) -> str:
    """Write the notes of a decision in one line."""
    return "; ".join(note_text(note, words) for note in notes)


def with_notes(decision: Decision, notes: Iterable[DecisionNote]) -> Decision:
    """Return a decision with these notes, and their text."""
    notes = tuple(notes)
    return msgspec.structs.replace(decision, notes=notes, note=notes_text(notes))


def binding_text(advice: GangAdvice, words: Vocabulary = ENGINE_WORDS) -> str:
    """Write what keeps a gang from running, in the words of a front; empty if nothing does."""
    if advice.not_ready is not None:
        return note_text(advice.not_ready, words)
    return "" if advice.binding_reason is None else advice.binding_reason.text()


def render_explanation(found: Explanation, words: Vocabulary) -> Explanation:
    """Return an explanation with its texts in the words of a front."""
    replace = msgspec.structs.replace
    eviction, gang = found.eviction, found.gang
    return replace(
        found,
        decision=replace(found.decision, note=notes_text(found.decision.notes, words)),
        wakes=render_wakes(found.wake_events, words),
        eviction=None if eviction is None else replace(eviction, why_not=obstacles_text(eviction.obstacles, words)),
        gang=None if gang is None else replace(gang, binding=binding_text(gang, words)),
    )
