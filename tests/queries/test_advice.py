"""Notes about input that is valid and yet hardly meant so."""

from __future__ import annotations

import pytest

from hostler.engine import find_policy
from hostler.model import (
    Device,
    Gang,
    Guest,
    GuestSpec,
    GuestTerm,
    Host,
    Reservation,
    Selector,
    Tenancy,
    amounts,
    parse_amounts,
)
from hostler.queries import input_advice
from tests.queries.small_inputs import host, inputs_of, sized

GPU_HOST = Host(name="g", uid="g", capacity=parse_amounts({"cpu": 4}), devices=(Device("gpu"),))


def _advice(*members, **more):
    made = inputs_of(*members, **more)
    return input_advice(made, [guest.spec for guest in made.guests])


def _asking(name):
    return Guest(name="asks", uid="asks", spec=GuestSpec(requests=amounts({name: 1})))


@pytest.mark.parametrize(
    ("members", "notes"),
    [
        pytest.param((), [], id="nothing"),
        pytest.param((host("a"), sized("one")), [], id="all known"),
        pytest.param((_asking("cpuu"),), [], id="no hosts to compare with"),
        pytest.param((host("a"), _asking("cpuu")), ["no host has 'cpuu' (did you mean 'cpu'?)"], id="misspelt"),
        pytest.param((host("a"), _asking("licences")), ["no host has 'licences'"], id="unknown"),
        pytest.param(
            (GPU_HOST, _asking("gpu")), ["'gpu' is a device here: write devices: [{kind: gpu}]"], id="a device"
        ),
    ],
)
def test_resources_that_no_host_has_are_noted(members, notes):
    assert _advice(*members) == notes


def test_policy_for_gpus_without_gpus_is_noted():
    policy = find_policy("gpu_packing")
    assert _advice(host("a"), policy=policy) == [
        "policy 'gpu_packing' scores by gpus, and no host has a device of kind gpu"
    ]
    assert _advice(GPU_HOST, policy=policy) == []


def test_undeclared_gang_is_noted_once_with_the_nearest():
    members = [sized(name, gang="default/crw") for name in ("one", "two")]
    tenancy = Tenancy(gangs=(Gang(name="crew"),))
    note = "gang 'default/crw' is not declared: its members wait for it (did you mean 'default/crew'?)"
    assert _advice(host("a"), *members, tenancy=tenancy) == [note]
    running = sized("one", on="a", gang="default/crw")
    assert _advice(host("a"), running, tenancy=tenancy) == []


def test_reservation_for_an_undeclared_gang_is_noted():
    tenancy = Tenancy(reservations=(Reservation(name="night", gang="default/crew"),))
    assert _advice(host("a"), tenancy=tenancy) == ["gang 'default/crew' is not declared: reservation 'night' is for it"]


def test_constraints_that_do_nothing_are_noted():
    nobody = sized("one", anti_affinity=(GuestTerm(topology="zone"),))
    assert _advice(host("a", zone="z"), nobody) == [
        "anti_affinity by 'zone' has no selector, so it counts no guest: write selector: {} for all"
    ]
    elsewhere = sized("two", anti_affinity=(GuestTerm(topology="zonee", selector=Selector()),))
    assert _advice(host("a", zone="z"), elsewhere) == [
        "no host has the label 'zonee', by which anti_affinity goes (did you mean 'zone'?)"
    ]
