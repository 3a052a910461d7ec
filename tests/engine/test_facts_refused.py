"""Facts that no front could send: they are refused and leave no trace."""

from __future__ import annotations

import msgspec
import pytest

from hostler.errors import FactError, InputError, UnknownNameError
from hostler.model import (
    MAX_AMOUNT,
    Device,
    DeviceRequest,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostsJoined,
)
from tests.engine.fleet import batch, engine_with, guest, host, place, spec
from tests.engine.traces import refused


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(HostJoined(host=Host(name="")), id="host without a name"),
        pytest.param(HostJoined(host=Host(name="h", capacity=(("cpu", -1),))), id="negative capacity"),
        pytest.param(HostJoined(host=Host(name="h", capacity=(("cpu", MAX_AMOUNT + 1),))), id="capacity beyond 2^62"),
        pytest.param(HostJoined(host=Host(name="h", reserve=(("cpu", -1),))), id="negative reserve"),
        pytest.param(HostJoined(host=Host(name="h", devices=(Device("gpu", "", 0),))), id="device of nothing"),
        pytest.param(HostJoined(host=Host(name="h", devices=(Device("gpu"),) * 65)), id="65 devices"),
        pytest.param(HostsJoined(hosts=(host("x"), host("x", cpu=1))), id="one name twice"),
        pytest.param(HostsJoined(hosts=(host("x"), Host(name="y", capacity=(("cpu", -1),)))), id="one bad of two"),
        pytest.param(GuestArrived(guest=Guest(name="g")), id="guest without a uid"),
        pytest.param(GuestArrived(guest=Guest(name="", uid="g")), id="guest without a name"),
        pytest.param(GuestArrived(guest=guest("g", GuestSpec(requests=(("cpu", -1),)))), id="negative request"),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(requests=(("cpu", MAX_AMOUNT + 1),)))), id="request beyond 2^62"
        ),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(devices=(DeviceRequest("gpu", 0),)))), id="no devices asked for"
        ),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(devices=(DeviceRequest("gpu", 1, 1001),)))), id="1001 milli"
        ),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x",)), id="columns of different length"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 1), names=("x", "y")), id="spec that is not there"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x", "x")), id="uid twice"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x", "")), id="empty name"),
    ],
)
def test_a_fact_that_no_front_could_send_is_refused_without_a_trace(event):
    engine = engine_with([host("a")])
    place(engine, guest("there"))
    refused(engine, event)


def test_unknown_policy_of_a_guest_is_rejected_with_the_nearest_name():
    engine = engine_with([host("a")], "spread", "pack")
    error = refused(engine, GuestArrived(guest=guest("g", policy="packk")), UnknownNameError)
    assert "pack" in error.hint
    refused(engine, batch([spec(), spec(policy="packk")], ["x", "y"]), UnknownNameError)


def test_an_overcommit_that_passes_2_to_the_62_is_refused_without_a_trace():
    engine = engine_with([host("a")])
    refused(engine, HostJoined(host=host("b", cpu=MAX_AMOUNT, overcommit=(("cpu", 2_000_000),))), InputError)
    refused(
        engine,
        HostsJoined(hosts=(host("c"), host("b", cpu=MAX_AMOUNT, overcommit=(("cpu", 2_000_000),)))),
        InputError,
    )


def test_events_that_are_no_events_are_refused():
    engine = engine_with([host("a")])
    with pytest.raises(FactError):
        engine.apply(msgspec.structs.replace(host("b")))
