"""The number of hosts like one that a set of guests needs: enough, and one less is not."""

from __future__ import annotations

import msgspec
import pytest

from hostler.errors import InputError, UnknownNameError
from hostler.model import GuestTerm, Quota, Selector, Tenancy, amounts
from hostler.model.hosts import HOSTNAME, with_hostname
from hostler.queries import place_guests, size_fleet
from tests.queries.small_inputs import EVICTING, host, inputs_of, sized

APART = GuestTerm(topology=HOSTNAME, selector=Selector())


def test_size_is_enough_and_one_host_less_is_not():
    guests = [sized(f"g{number}", 3) for number in range(40)]
    size = size_fleet(inputs_of(host("a", 8), *guests), "a")
    assert (size.like, size.guests, size.hosts, size.lower_bound) == ("a", 40, 20, 15)
    for count, fit in ((20, True), (19, False)):
        fleet = [host(f"h{number}", 8) for number in range(count)]
        assert (place_guests(inputs_of(*fleet, *guests)).summary.not_placed == 0) is fit


def test_running_guests_and_other_hosts_do_not_count():
    made = inputs_of(host("small", 2), host("big", 64), sized("runs", 60, on="big"), sized("one", 2), sized("two", 2))
    assert size_fleet(made, "small").hosts == 2
    assert size_fleet(made, "big").hosts == 1


def test_cordoned_model_counts_as_open():
    closed = msgspec.structs.replace(host("a"), cordoned=True)
    assert size_fleet(inputs_of(closed, sized("one")), "a").hosts == 1


def test_each_host_is_a_domain_of_its_own():
    progress: list[int] = []
    guests = [sized(f"g{number}", anti_affinity=(APART,)) for number in range(7)]
    size = size_fleet(inputs_of(with_hostname(host("a", 64)), *guests), "a", advance=progress.append)
    assert (size.hosts, size.lower_bound) == (7, 1)
    assert sum(progress) > 2


def test_no_pending_guests_need_no_host():
    size = size_fleet(inputs_of(host("a"), sized("runs", on="a")), "a")
    assert (size.guests, size.hosts, size.misfits) == (0, 0, ())


def test_guests_that_no_empty_host_takes_are_misfits():
    size = size_fleet(inputs_of(host("a"), sized("huge", 5), sized("huge-2", 5), sized("fits")), "a")
    assert size.hosts is None
    (misfit,) = size.misfits
    assert (misfit.guest.name, misfit.guests) == ("huge", 2)
    assert [one.reason.text() for one in misfit.explanation.verdicts[0].failures] == ["insufficient: cpu"]


@pytest.mark.parametrize(("wanted", "hint"), [("aa", "did you mean 'a'?"), ("zzzzz", "")])
def test_unknown_host_is_rejected_with_the_nearest_name(wanted, hint):
    with pytest.raises(UnknownNameError, match=f"^there is no host '{wanted}'$") as caught:
        size_fleet(inputs_of(host("a"), sized("one")), wanted)
    assert hint in (caught.value.hint or "")


def test_empty_input_has_no_host_to_size_by():
    with pytest.raises(UnknownNameError) as caught:
        size_fleet(inputs_of(), "a")
    assert caught.value.hint == "there are no hosts at all"


def test_guests_that_never_fit_together_cannot_be_sized():
    zone = GuestTerm(topology="zone", selector=Selector())
    guests = [sized(name, anti_affinity=(zone,)) for name in ("one", "two")]
    with pytest.raises(InputError, match="2 guests do not fit on as many hosts like 'a'"):
        size_fleet(inputs_of(host("a", 64, zone="only"), *guests), "a")


def test_quotas_do_not_count():
    tenancy = Tenancy(quotas=(Quota(tenant="team", max=amounts({"cpu": 1000})),))
    guests = [sized(name, 4, tenant="team") for name in ("one", "two")]
    assert size_fleet(inputs_of(host("a"), *guests, tenancy=tenancy), "a").hosts == 2


def test_policies_that_preempt_are_sized_without_evictions():
    guests = [sized("huge", 9, priority=10), sized("low", 3)]
    (misfit,) = size_fleet(inputs_of(host("a"), *guests, policy=EVICTING), "a").misfits
    assert (misfit.guest.name, misfit.explanation.decision.note) == ("huge", "")
