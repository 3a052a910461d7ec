"""A guest of an input or a journal is explained as things stood when it was decided."""

from __future__ import annotations

import msgspec
import pytest

from hostler.engine import Engine, Registry
from hostler.engine.journals.journal import Recorder, read_journal
from hostler.errors import InputError, JournalError, UnknownNameError
from hostler.model import GuestArrived, GuestLeft, HostJoined
from hostler.queries import decide_all, explain_guest, explain_recorded_guest, place_guests, with_preemption
from hostler.queries.explanations import AT_ARRIVAL
from tests.queries.small_inputs import EVICTING, SPREAD, host, inputs_of, sized

TWO_HOSTS = (host("a", 4), host("b", 8))


def test_explanation_shows_hosts_as_the_decision_saw_them():
    """The second guest fills the host after the first was decided, and the verdict about the first does not see it."""
    made = inputs_of(*TWO_HOSTS, sized("first", 4), sized("second", 4), sized("third", 4))
    explained = explain_guest(made, "first")
    assert explained.decision.host == place_guests(made).decisions["first"].host
    assert set(explained.explanation.feasible) == {"a", "b"}
    assert (explained.was_bound, explained.policy) == (False, SPREAD)
    third = explain_guest(made, "third")
    assert third.explanation.feasible == (third.decision.host,)


def test_guest_that_fits_nowhere_is_explained_with_a_cure():
    explained = explain_guest(inputs_of(*TWO_HOSTS, sized("huge", 9)), "huge")
    assert explained.decision.host == ""
    assert explained.explanation.feasible == ()
    assert explained.explanation.cure is not None
    assert explained.explanation.cure.host == "b"


def test_guest_that_runs_is_explained_without_its_own_booking():
    explained = explain_guest(inputs_of(*TWO_HOSTS, sized("runs", 4, on="a")), "default/runs")
    assert explained.was_bound
    assert explained.explanation.as_of == AT_ARRIVAL
    assert set(explained.explanation.feasible) == {"a", "b"}


CROWDED = (host("a"), sized("low", 3, on="a"), sized("high", 3, priority=10))


@pytest.mark.parametrize(
    ("policy", "others", "why_not"),
    [
        pytest.param(EVICTING, (), "", id="the policy of the input"),
        pytest.param(SPREAD, (), "the policy does not evict others", id="no preemption"),
        pytest.param(SPREAD, with_preemption([SPREAD], is_on=True), "", id="another policy"),
    ],
)
def test_explanation_says_whom_the_policies_would_evict(policy, others, why_not):
    explained = explain_guest(inputs_of(*CROWDED, policy=policy), "high", others)
    assert explained.decision.host == "", "the run itself evicts nobody"
    advice = explained.explanation.eviction
    assert advice is not None
    assert (advice.victims, advice.why_not) == (("low",), why_not)


def test_run_with_preemption_explains_victim_and_preemptor():
    made = inputs_of(*CROWDED, policy=EVICTING)
    assert explain_guest(made, "high", preempt=True).decision.host == "a"
    eviction = explain_guest(made, "low", preempt=True).eviction
    assert eviction is not None
    assert (eviction.host, eviction.preemptor) == ("a", "high")


def test_explanation_is_the_same_each_time():
    made = inputs_of(*TWO_HOSTS, sized("one", 4), sized("two", 9))
    assert explain_guest(made, "two") == explain_guest(made, "two")


def test_unknown_guest_suggests_the_nearest_name():
    with pytest.raises(UnknownNameError) as caught:
        explain_guest(inputs_of(host("a"), sized("web")), "wbe")
    assert caught.value.hint == "did you mean 'web'?"
    with pytest.raises(UnknownNameError) as caught:
        explain_guest(inputs_of(host("a")), "web")
    assert caught.value.hint == "there are no guests at all"


def test_ambiguous_name_is_rejected_with_the_names_to_choose_from():
    guests = [msgspec.structs.replace(sized("web", namespace=one), uid=f"uid of {one}") for one in ("one", "two")]
    with pytest.raises(InputError, match="2 guests are called 'web'") as caught:
        explain_guest(inputs_of(host("a"), *guests), "web")
    assert caught.value.hint == "write one of one/web, two/web"
    assert explain_guest(inputs_of(host("a"), *guests), "two/web").guest.uid == "uid of two"


def _recorded(*leaving):
    lines: list[bytes] = []
    recorder = Recorder(Engine([SPREAD]), lines.append)
    recorder.apply(HostJoined(host=host("a")))
    for name in ("one", "two"):
        recorder.apply(GuestArrived(guest=sized(name, 3)))
        decide_all(recorder)
    for uid in leaving:
        recorder.apply(GuestLeft(uid=uid, at=1))
    return read_journal(lines)


def test_recorded_guest_is_explained_by_its_last_decision():
    explained = explain_recorded_guest(_recorded(), "two", Registry())
    assert [count.reason.text() for count in explained.decision.reasons] == ["insufficient: cpu"]
    assert explained.departure is None


def test_recorded_guest_that_left_is_explained_as_it_was():
    journal = _recorded("one")
    explained = explain_recorded_guest(journal, "one", Registry())
    assert explained.decision.host == "a"
    assert explained.departure is not None
    assert (explained.departure.entry, explained.departure.at) == (len(journal.entries), 1)


def test_journal_that_does_not_replay_is_rejected():
    journal = _recorded()
    changed = msgspec.structs.replace(journal, entries=journal.entries[1:])
    with pytest.raises(JournalError, match="does not replay"):
        explain_recorded_guest(changed, "one", Registry())
