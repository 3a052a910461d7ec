"""Hosts as the engine knows them, without anything around them."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Capabilities, DeviceHere, HostSize, Register
from hostler.control.fleet.hosts.host_body import (
    HostBody,
    check_host_size,
    check_registration,
    host_of,
    limit_of,
    read_body,
    with_body,
    with_registration,
)
from hostler.control.settings import ControlSettings
from hostler.control.store.rows.hosts import HostRow
from hostler.errors import InputError
from hostler.model import CPU, MEMORY, Taint, amount_of

SIZE = HostSize(cpu_millis=8000, memory_bytes=2**34, disk_bytes=2**36, devices=(DeviceHere(kind="gpu", model="a"),))
BODY = HostBody(
    driver="fake",
    capabilities=Capabilities(live_migration=True),
    size=SIZE,
    labels=(("rack", "r1"), ("zone", "z1")),
    storages=("fast",),
    own_labels=(("rack", "r2"),),
    own_taints=(Taint(key="odd"),),
)
READY = HostRow(id="h1", name="north", state="ready", version=7)


def test_labels_of_operators_beat_agents_and_facts_beat_both():
    body = HostBody(driver="fake", labels=(("hostler/can-migrate", "yes"), ("hostler/driver", "qemu")))
    assert dict(host_of(READY, body).labels) == {"hostler/driver": "fake", "kubernetes.io/hostname": "north"}
    assert dict(host_of(READY, BODY).labels) == {
        "rack": "r2",
        "zone": "z1",
        "hostler/storage.fast": "yes",
        "hostler/can-migrate": "yes",
        "hostler/driver": "fake",
        "kubernetes.io/hostname": "north",
    }


def test_a_host_has_its_size_devices_taints_and_version():
    host = host_of(READY, BODY)
    assert (amount_of(host.capacity, CPU), amount_of(host.capacity, MEMORY)) == (8000, 2**34)
    assert [(device.kind, device.model) for device in host.devices] == [("gpu", "a")]
    assert (host.uid, host.version, host.taints) == ("h1", 7, (Taint(key="odd"),))


@pytest.mark.parametrize(
    ("row", "body"),
    [
        ({"state": "silent"}, {}),
        ({"state": "offline"}, {}),
        ({"state": "fenced"}, {}),
        ({"state": "joined"}, {}),
        ({"is_cordoned": True}, {}),
        ({"is_draining": True}, {}),
        ({}, {"is_inventory_known": False}),
    ],
)
def test_a_host_takes_vms_only_when_nothing_keeps_them_away(row, body):
    assert not host_of(READY, BODY).cordoned
    changed = HostRow(**({"id": "h1", "name": "north", "state": "ready"} | row))
    assert host_of(changed, HostBody(size=SIZE, **body)).cordoned


def test_what_a_host_may_give_follows_overcommitment_and_reserve():
    assert limit_of(READY, BODY, ControlSettings()) is None
    own = HostBody(size=SIZE, own_overcommit=((CPU, 1_500_000),), own_reserve=((MEMORY, 2**30),))
    limit = limit_of(READY, own, ControlSettings(overcommit=((CPU, 4_000_000),)))
    assert (limit.cpu_millis, limit.memory_bytes, limit.disk_bytes) == (12_000, 2**34 - 2**30, 2**36)
    assert limit_of(READY, BODY, ControlSettings(overcommit=((CPU, 2_000_000),))).cpu_millis == 16_000


def test_bridges_of_agent_become_labels():
    message = Register(
        boot="b",
        agent="a",
        version="1",
        driver="qemu",
        capabilities=Capabilities(),
        size=SIZE,
        labels=(("rack", "r1"),),
        bridges=("br0", "br1"),
    )
    body = with_registration(HostBody(), check_registration(message))
    labels = {"rack": "r1", "hostler/bridge.br0": "yes", "hostler/bridge.br1": "yes"}
    assert dict(body.labels) == labels
    assert labels.items() <= dict(host_of(READY, body).labels).items()
    assert with_registration(body, msgspec.structs.replace(message, bridges=())).labels == (("rack", "r1"),)
    for wrong in (("a b",), tuple(f"br{number}" for number in range(65))):
        with pytest.raises(InputError):
            check_registration(msgspec.structs.replace(message, bridges=wrong))


def test_no_label_says_that_a_watchdog_works():
    mark = (("hostler/watchdog", "yes"),)
    message = Register(
        boot="b", agent="a", version="1", driver="fake", capabilities=Capabilities(), size=SIZE, labels=mark
    )
    assert not with_registration(HostBody(own_labels=mark, is_watched=True), message).is_watched
    assert with_registration(HostBody(), msgspec.structs.replace(message, is_watched=True)).is_watched


def test_a_body_outlives_the_database_and_fills_columns():
    row = with_body(READY, BODY)
    assert read_body(row) == BODY
    assert (row.cpu_millis, row.memory_bytes, row.disk_bytes) == (8000, 2**34, 2**36)
    assert dict(row.labels)["rack"] == "r2"


@pytest.mark.parametrize(
    "size",
    [
        HostSize(cpu_millis=-1, memory_bytes=0),
        HostSize(cpu_millis=0, memory_bytes=2**62 + 1),
        HostSize(cpu_millis=0, memory_bytes=0, disk_bytes=-5),
        HostSize(cpu_millis=0, memory_bytes=0, devices=(DeviceHere(kind=""),)),
        HostSize(cpu_millis=0, memory_bytes=0, devices=(DeviceHere(kind="gpu"),) * 65),
    ],
)
def test_a_size_that_nobody_could_count_with_is_refused(size):
    with pytest.raises(InputError):
        check_host_size(size)
