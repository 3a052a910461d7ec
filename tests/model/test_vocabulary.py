"""Texts of advice are made from codes, in the words of each front."""

from __future__ import annotations

import re

import pytest

from hostler.model import Decision, DecisionNote, EvictionAdvice, Explanation, GangAdvice, notes
from hostler.model.decisions import EvictionObstacle, WakeEvent
from hostler.model.notes import BEYOND_QUOTA, NOBODY_LOWER, NOTE_TEXTS, OBSTACLE_TEXTS
from hostler.model.reasons import RESERVATION_ENDS, Wake
from hostler.model.vocabulary import (
    ENGINE_WORDS,
    VM_WORDS,
    WAKE_TEXTS,
    note_text,
    obstacles_text,
    render_explanation,
    render_wakes,
    with_notes,
)

DECISION = Decision(guest="web", uid="web", seq=1, at=0, policy="default", state="waiting")
OTHER_WORDS = re.compile(r"\b(guests?|tenants?|binds?)\b")


def test_every_wake_has_a_text() -> None:
    assert set(Wake) <= set(WAKE_TEXTS)


@pytest.mark.parametrize("text", [*WAKE_TEXTS.values(), *OBSTACLE_TEXTS.values()])
def test_declared_text_has_no_engine_word_for_vm_owners(text: str) -> None:
    assert not OTHER_WORDS.search(VM_WORDS.render(text))
    assert "{" not in ENGINE_WORDS.render(text)


@pytest.mark.parametrize("code", NOTE_TEXTS)
def test_note_has_no_engine_word_for_vm_owners(code: str) -> None:
    note = DecisionNote(code, "default/crew", 2, 3, "rack=r1", "no disk")
    assert not OTHER_WORDS.search(note_text(note, VM_WORDS))
    assert "{" not in note_text(note)


def test_every_code_of_a_note_has_a_text() -> None:
    """A code without one would be shown as it is."""
    constants = {name: code for name, code in vars(notes).items() if name.isupper() and name[0] != "_"}
    codes = [code for code in constants.values() if isinstance(code, str)]
    assert len(codes) > 30
    assert sorted(codes) == sorted([*NOTE_TEXTS, *OBSTACLE_TEXTS])


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (DecisionNote("gang_gathers", "default/crew", 2, 3), "2/3 members of gang default/crew are there"),
        (
            DecisionNote("gang_lacks", "default/crew", 1, place="rack=r1"),
            "gang default/crew needs 1 more of its members placed in rack=r1",
        ),
        (DecisionNote("bind_failed"), "bind failed"),
        (DecisionNote("bind_failed", said="{no} disk"), "bind failed: {no} disk"),
        (DecisionNote("rejected_outside", "a", said="too hot"), "a: too hot"),
        (DecisionNote("placed_and_evicted", "a", said="preempted for web"), "placed on a, then preempted for web"),
        (DecisionNote("held_by_reservation", "night", 1), "reservation night holds room on 1 host"),
        (DecisionNote("of_tomorrow", "x", said="why"), "of tomorrow: why"),
    ],
)
def test_note_reads_well(note: DecisionNote, text: str) -> None:
    assert note_text(note) == text


def test_notes_of_an_explanation_are_rendered_for_the_front() -> None:
    notes = (DecisionNote("bind_failed", said="no disk"), DecisionNote("too_many_evictions", count=5))
    decision = with_notes(DECISION, notes)
    assert decision.note == "bind failed: no disk; does not evict others: more than 5 guests in the window"
    gang = GangAdvice(gang="crew", not_ready=DecisionNote("gang_unknown", "crew"))
    shown = render_explanation(Explanation(decision=decision, as_of="now", gang=gang), VM_WORDS)
    assert shown.decision.note == "placement failed: no disk; does not evict others: more than 5 VMs in the window"
    assert shown.gang is not None
    assert shown.gang.binding == "gang crew is not known yet"


@pytest.mark.parametrize(
    ("code", "of_engine", "of_vms"),
    [
        (Wake.ROOM_FREED, "a guest leaves or shrinks, or a bind fails", "a VM leaves or shrinks, or a placement fails"),
        (
            Wake.GUEST_CHANGED,
            "the guest itself, or what it refers to, changes",
            "the VM itself, or what it refers to, changes",
        ),
        (Wake.GUEST_PLACED, "another guest is placed", "another VM is placed"),
        (
            "quota_freed",
            "a guest of a tenant with a quota leaves, or the quotas change",
            "a VM of a project with a quota leaves, or the quotas change",
        ),
    ],
)
def test_wake_reads_in_words_of_each_front(code: str, of_engine: str, of_vms: str) -> None:
    assert render_wakes([WakeEvent(code)], ENGINE_WORDS) == (of_engine,)
    assert render_wakes([WakeEvent(code)], VM_WORDS) == (of_vms,)


@pytest.mark.parametrize("name", ["guest", "the guest", "{guest}", "a tenant {0}"])
def test_name_in_a_text_stays_whatever_it_looks_like(name: str) -> None:
    assert render_wakes([WakeEvent(RESERVATION_ENDS, name)], VM_WORDS) == (f"reservation {name} ends",)


def test_obstacles_are_counted_by_hosts() -> None:
    obstacles = (EvictionObstacle(NOBODY_LOWER, 1), EvictionObstacle(BEYOND_QUOTA, 3))
    assert obstacles_text(obstacles) == (
        "1 host: no guest of lower priority; 3 hosts: its tenant's quota has no room for it"
    )
    assert obstacles_text(obstacles[:1], VM_WORDS) == "1 host: no VM of lower priority"
    assert obstacles_text([EvictionObstacle(BEYOND_QUOTA)], VM_WORDS) == "its project's quota has no room for it"


def test_explanation_is_rendered_from_codes_not_from_texts() -> None:
    found = Explanation(
        decision=DECISION,
        as_of="now",
        eviction=EvictionAdvice(why_not="any text", obstacles=(EvictionObstacle(NOBODY_LOWER),)),
        wakes=("any text",),
        wake_events=(WakeEvent(Wake.GUEST_PLACED),),
    )
    shown = render_explanation(found, VM_WORDS)
    assert shown.wakes == ("another VM is placed",)
    assert shown.eviction is not None
    assert shown.eviction.why_not == "no VM of lower priority"
