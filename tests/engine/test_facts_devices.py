"""Devices on the books: those a guest names, those of several requests, and those first named late."""

from __future__ import annotations

import pytest

from hostler.model import Bind, Device, DeviceRequest, GuestArrived, GuestLeft, HostJoined
from tests.engine.fleet import (
    SECOND,
    arrive,
    binds,
    devices_left,
    engine_with,
    guest,
    holds,
    host,
    place,
    policy,
    reasons,
    step,
)
from tests.engine.traces import refused


def test_a_guest_on_devices_that_it_names_holds_exactly_those():
    engine = engine_with([host("a", gpus=3)])
    arrive(engine, guest("g", gpu=(2, 600), host="a", on_devices=(2, 0)))
    assert devices_left(engine, "a") == [400, 1000, 400]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000, 1000, 1000]


@pytest.mark.parametrize(
    "on_devices",
    [
        pytest.param((5,), id="no such index"),
        pytest.param((0, 1), id="too many"),
        pytest.param((2,), id="another kind"),
        pytest.param((-1,), id="a negative index"),
    ],
)
def test_a_guest_on_devices_that_the_host_does_not_have_is_refused(on_devices):
    engine = engine_with([host("a", devices=(Device("gpu"), Device("gpu"), Device("nic")))])
    refused(engine, GuestArrived(guest=guest("g", gpu=(1, 500), host="a", on_devices=on_devices)))


def test_guest_on_a_full_device_goes_below_zero_and_back():
    engine = engine_with([host("a", gpus=1)])
    arrive(engine, guest("g", gpu=(1, 700), host="a"), guest("h", gpu=(1, 700), host="a"))
    assert devices_left(engine, "a") == [-400]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [300]


def test_device_kinds_and_models_first_named_late_count():
    engine = engine_with([host("a", gpus=1, model="A")])
    assert place(engine, guest("first", gpu=(1, 100))) == ["a"]
    late = DeviceRequest("fpga", 1, 500, ("X",))
    engine.apply(GuestArrived(guest=guest("g", devices=(late,))))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"devices: no device: fpga": 1}
    engine.apply(HostJoined(host=host("b", devices=(Device("fpga", "Y"),))))
    engine.apply(HostJoined(host=host("c", devices=(Device("fpga", "X"),))))
    assert binds(engine.step(60 * SECOND)) == {"g": "c"}
    assert place(engine, guest("h", devices=(DeviceRequest("gpu", 1, 100, ("B",)),))) == [""]
    assert reasons(engine.decision("h")) == {"devices: no device: gpu": 2, "devices: wrong device model: gpu": 1}


@pytest.mark.parametrize("rule", ["lowest", "best", "worst", "random"])
@pytest.mark.parametrize(
    ("sizes", "requests"),
    [
        pytest.param((1000, 500), (DeviceRequest("gpu", 1, 500), DeviceRequest("gpu", 1, 1000)), id="share then whole"),
        pytest.param(
            (600, 900), (DeviceRequest("gpu", 2, 300), DeviceRequest("gpu", 1, 650)), id="two shares, one big"
        ),
        pytest.param((1000, 1000), (DeviceRequest("gpu", 2, 500), DeviceRequest("gpu", 2, 500)), id="twice two halves"),
    ],
)
def test_several_requests_of_one_kind_are_booked_as_told_or_refused(rule, sizes, requests):
    machine = host("a", devices=tuple(Device("gpu", "", size) for size in sizes))
    engine = engine_with([machine], policy("spread", devices=rule))
    arrive(engine, guest("g", devices=requests))
    actions = engine.step(0)
    if holds(actions):
        assert devices_left(engine, "a") == list(sizes)
        return
    (bind,) = actions
    assert isinstance(bind, Bind)
    left, at = list(sizes), 0
    for request in requests:
        own = bind.devices[at : at + request.count]
        assert len(set(own)) == request.count, "one request took a device twice"
        for device in own:
            left[device] -= request.milli
        at += request.count
    assert min(left) >= 0
    assert devices_left(engine, "a") == left
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == list(sizes)


def test_a_share_goes_to_a_device_of_the_model_it_asked_for():
    machine = host("a", devices=(Device("gpu", "A"), Device("gpu", "B")))
    for name in ("fgd", "spread", "pack", "random", "gpu_packing"):
        engine = engine_with([machine], name)
        arrive(engine, guest("g", devices=(DeviceRequest("gpu", 1, 500, ("B",)),)))
        (bind,) = step(engine, 0)
        assert bind.devices == (1,), name
