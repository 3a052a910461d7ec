"""Hand-computed tables for the rules by which devices are chosen."""

from __future__ import annotations

import pytest

from hostler.model import Device, DeviceRequest
from tests.engine.fleet import devices_left, engine_with, guest, host, place, policy
from tests.engine.gpus import gpu_engine, gpu_host

DEVICE_RULES = [
    pytest.param("lowest", [1000, 300, 600, 300], 1, 300, (0,), id="lowest index"),
    pytest.param("best", [1000, 300, 600, 300], 1, 300, (1,), id="best: least left, lowest index of two"),
    pytest.param("worst", [300, 600, 1000, 1000], 1, 300, (2,), id="worst: most left, lowest index of two"),
    pytest.param("lowest", [200, 500, 1000], 1, 400, (1,), id="lowest that fits"),
    pytest.param("best", [200, 1000, 500], 1, 400, (2,), id="best that fits"),
    pytest.param("worst", [200, 500, 1000], 1, 400, (2,), id="worst that fits"),
    pytest.param("best", [300, 900, 400], 2, 300, (0, 2), id="best, two devices"),
    pytest.param("worst", [300, 900, 400], 2, 300, (1, 2), id="worst, two devices"),
    pytest.param("best", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, best"),
    pytest.param("worst", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, worst"),
    pytest.param(
        "random", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, random"
    ),
    pytest.param("random", [200, 300, 200], 1, 300, (1,), id="random among those that fit"),
]


@pytest.mark.parametrize(("rule", "left", "count", "milli", "expected"), DEVICE_RULES)
def test_device_rules(rule, left, count, milli, expected):
    engine = gpu_engine(policy("spread", devices=rule), gpu_host("a", left))
    place(engine, guest("g", gpu=(count, milli)))
    assert engine.decision("g").devices == expected
    for device in expected:
        left[device] -= milli
    assert devices_left(engine, "a") == left


def test_devices_of_other_kinds_and_models_are_passed_over():
    machine = host("a", devices=(Device("nic"), Device("gpu", "A"), Device("gpu", "B"), Device("nic")))
    engine = engine_with([machine])
    wanted = (DeviceRequest("nic", 2, 400), DeviceRequest("gpu", 1, 1000, ("B", "C")))
    assert place(engine, guest("g", devices=wanted)) == ["a"]
    assert engine.decision("g").devices == (0, 3, 2)
    assert devices_left(engine, "a") == [600, 1000, 0, 600]
