"""What a caller learns about VMs that it may not read: that there is one, but neither its name nor its owner."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.schemas import Victim
from hostler.control.services.visible_names import hide_names, one_project, visible_name
from hostler.model import (
    Cure,
    CureChange,
    Decision,
    EvictionAdvice,
    Explanation,
    Failure,
    HostVerdict,
    Reason,
)
from hostler.model.decisions import ChangeKind, WakeEvent

RED = one_project("red")
NAMES = ("red/web", "blue/secret", "secret")


def verdict(*by: str) -> HostVerdict:
    reason = Reason("resources", "insufficient", "cpu")
    return HostVerdict(host="a", failures=(Failure(reason=reason, needed=2, free=1, by=by), Failure(reason=reason)))


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("red/web", "red/web"),
        ("gang:red/crew", "gang:red/crew"),
        ("blue/web", "a VM of another project"),
        ("web", "a VM of another project"),  # one of the project default
        ("guest:blue/web", "a VM of another project"),
        ("guest:web", "a VM of another project"),
        ("gang:blue/crew", "a gang of another project"),
        ("reservation:blue/night", "a reservation of another project"),
    ],
)
def test_a_name_is_seen_by_those_who_may_read_its_project(name: str, seen: str) -> None:
    assert visible_name(name, RED) == seen
    assert visible_name(name, lambda project: True) == name


def test_a_verdict_keeps_all_but_the_names() -> None:
    told = hide_names(verdict(*NAMES), RED)
    assert told.failures[0].by == ("red/web", "a VM of another project", "a VM of another project")
    assert msgspec.structs.replace(told.failures[0], by=NAMES) == verdict(*NAMES).failures[0]
    assert hide_names(verdict(*NAMES), lambda project: True) == verdict(*NAMES)


def test_a_victim_of_another_project_has_a_host_and_no_name() -> None:
    victim = Victim(vm="id", project="blue", name="secret", host="a")
    assert hide_names(victim, RED) == Victim(vm="", project="", name="a VM of another project", host="a")
    assert hide_names(victim, one_project("blue")) == victim


def test_an_explanation_names_strangers_nowhere() -> None:
    text = "move or stop blue/secret on a by hand"
    found = Explanation(
        decision=Decision(guest="red/web", uid="u", seq=1, at=1, policy="p", state="held"),
        as_of="now",
        verdicts=(verdict(*NAMES),),
        cure=Cure(host="a", changes=(CureChange(kind="evict", subject="blue/secret", text=text, relative=1.0),)),
        eviction=EvictionAdvice(host="a", victims=NAMES, tenant="blue, red"),
    )
    told = hide_names(found, RED)
    words = msgspec.json.encode(told).decode()
    assert "secret" not in words
    assert "blue" not in words
    assert told.eviction is not None
    assert (told.eviction.victims[0], told.eviction.tenant) == ("red/web", "another project, red")
    assert told.cure is not None
    assert told.cure.changes[0].text == "move or stop a VM of another project on a by hand"
    assert hide_names(found, lambda project: True) == found


@pytest.mark.parametrize(
    ("kind", "subject", "text", "told_subject", "told"),
    [
        (
            "reduce_request",
            "cpu",
            "ask for 1 cpu less (at most 2; reservation blue/secret holds the rest)",
            "cpu",
            "ask for 1 cpu less (at most 2; a reservation of another project holds the rest)",
        ),
        (
            "other",
            "blue/secret",
            "end reservation blue/secret, or let it hold less",
            "a reservation of another project",
            "end a reservation of another project, or let it hold less",
        ),
        ("other", "a", "label a with rack", "a", "label a with rack"),
    ],
)
def test_a_cure_says_no_reservation_of_another_project(
    kind: ChangeKind, subject: str, text: str, told_subject: str, told: str
) -> None:
    change = CureChange(kind=kind, subject=subject, text=text, relative=1.0)
    reason = Reason("resources", "insufficient", "cpu")
    near = Failure(reason=reason, needed=3000, free=2000, missing=1000, by=("reservation:blue/secret",))
    far = Failure(reason=reason, needed=3000, free=0, by=("reservation:blue/x", "reservation:red/z"))
    found = Explanation(
        decision=Decision(guest="red/web", uid="u", seq=1, at=1, policy="p", state="held"),
        as_of="now",
        verdicts=(HostVerdict(host="a", failures=(near,)), HostVerdict(host="b", failures=(far,))),
        cure=Cure(host="a", changes=(change,)),
        wakes=("a host joins", "reservation blue/secret ends", "reservation blue/x ends", "reservation red/z ends"),
        wake_events=(
            WakeEvent("host_joined"),
            *(WakeEvent("reservation_ends", name) for name in ("blue/secret", "blue/x", "red/z")),
        ),
    )
    seen = hide_names(found, RED)
    assert seen.cure is not None
    assert (seen.cure.changes[0].subject, seen.cure.changes[0].text) == (told_subject, told)
    assert seen.wakes == ("a host joins", "a reservation of another project ends", "reservation red/z ends")
    assert "blue" not in msgspec.json.encode(seen).decode()
    assert hide_names(found, lambda project: True) == found


def test_names_that_look_like_a_sentence_of_the_engine_stay() -> None:
    text = "label a with reservation ends, or let it hold less"
    found = Explanation(
        decision=Decision(guest="red/web", uid="u", seq=1, at=1, policy="p", state="held"),
        as_of="now",
        verdicts=(verdict("red/web"),),
        cure=Cure(host="a", changes=(CureChange(kind="other", subject="a", text=text, relative=1.0),)),
    )
    assert hide_names(found, RED) == found
