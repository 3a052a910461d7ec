"""Every situation of a VM: how it is called, what each host is ordered, and what comes of every wish.

A wish is refused (``W`` wrong_state, ``M`` migrating, ``N`` not_movable), changes nothing (``-``), gives a host a new
order (``o``), tells the engine something (``t``), does both (``b``), or only raises the generation (``n``); after
``x`` nobody has the VM any more.
"""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from hostler.control.vms import desired_state
from hostler.control.vms.errors import ProtectedError
from hostler.control.vms.orders import order_for
from hostler.control.vms.state import State, Vm, is_settled, state_of
from hostler.errors import HostlerError
from tests.control.vms.checks import check_told
from tests.control.vms.situations import SITUATIONS, larger, running

CODES = {"wrong_state": "W", "migrating": "M", "not_movable": "N"}
WISHES = {
    "start": desired_state.start,
    "stop": desired_state.stop,
    "pause": desired_state.pause,
    "resume": desired_state.resume,
    "restart": desired_state.restart,
    "resize": lambda vm: desired_state.resize(vm, larger(vm.spec)),
    "migrate": desired_state.migrate,
    "cancel_move": desired_state.cancel_move,
    "vacate": desired_state.vacate,
    "delete": desired_state.delete,
}

# situation, state, order at the first host, order at the second, and what comes of each wish in the order above
TABLE = [
    ("new",                           "pending",   "-",               "-",               "- t W W W t W W - x"),
    ("held",                          "pending",   "-",               "-",               "- t W W W t W W - x"),
    ("bound",                         "creating",  "running",         "-",               "- o o - o b t W W b"),
    ("being created",                 "creating",  "running",         "-",               "- o o - o b t W W b"),
    ("being started",                 "starting",  "running",         "-",               "- o o - o b t W W b"),
    ("blocked",                       "starting",  "running",         "-",               "- o o - o b t W W b"),
    ("failed",                        "failed",    "running",         "-",               "- o o - o b t W W b"),
    ("running",                       "running",   "running",         "-",               "- o o - o b t W W b"),
    ("running with a disk",           "running",   "running",         "-",               "- o o - o b N W N b"),
    ("running on shared disks",       "running",   "running",         "-",               "- o o - o b t W W b"),
    ("turned itself off",             "starting",  "running",         "-",               "- o o - o b t W W b"),
    ("to be restarted",               "starting",  "running",         "-",               "- o o - o b t W W b"),
    ("shrinking",                     "resizing",  "running",         "-",               "- o o - o b t W W b"),
    ("growing",                       "resizing",  "running",         "-",               "- b o - o b M W W b"),
    ("grown",                         "resizing",  "running",         "-",               "- o o - o b t W W b"),
    ("to be paused",                  "running",   "paused",          "-",               "o o - o W b W W W b"),
    ("paused",                        "paused",    "paused",          "-",               "o o - o W b W W W b"),
    ("to be resumed",                 "paused",    "running",         "-",               "- o o - o b t W W b"),
    ("to be stopped",                 "stopping",  "stopped",         "-",               "o - W W W b N W N b"),
    ("being stopped",                 "stopping",  "stopped",         "-",               "o - W W W b N W N b"),
    ("stopped",                       "stopped",   "stopped",         "-",               "t - W W W o N W N o"),
    ("stopped, reserved",             "stopped",   "stopped",         "-",               "o - W W W b N W N b"),
    ("stopped without a disk",        "stopped",   "stopped",         "-",               "t - W W W o t W n o"),
    ("stopped before it was placed",  "stopped",   "-",               "-",               "t - W W W n W W - x"),
    ("waits for room at home",        "pending",   "stopped",         "-",               "- b W W W t N W N b"),
    ("starts again",                  "starting",  "running",         "-",               "- o o - o b N W N b"),
    ("runs again",                    "running",   "running",         "-",               "- o o - o b N W N b"),
    ("evicted",                       "stopping",  "stopped",         "-",               "- o o - o b N W - b"),
    ("evicted without a disk",        "stopping",  "absent",          "-",               "- o o - o b W W - b"),
    ("evicted on shared disks",       "stopping",  "stopped",         "-",               "- o o - o b W W - b"),
    ("evicted, at rest",              "pending",   "stopped",         "-",               "- b W W W t N W N b"),
    ("evicted, elsewhere",            "pending",   "-",               "-",               "- t W W W t W W - x"),
    ("to be moved",                   "migrating", "running",         "-",               "- M M - M M M t M b"),
    ("to be moved while stopped",     "migrating", "stopped",         "-",               "M - M W M M M t M b"),
    ("moved while stopped",           "migrating", "absent",          "stopped",         "M - M W M M M W M o"),
    ("preparing",                     "migrating", "running",         "running, lands",  "- M M - M M M o M b"),
    ("copying",                       "migrating", "running, sends",  "running, lands",  "- M M - M M M o M b"),
    ("sent",                          "migrating", "running, sends",  "running, lands",  "- M M - M M M W M b"),
    ("cleaning",                      "migrating", "absent",          "running",         "- M M - M M M W M b"),
    ("aborting",                      "migrating", "running, sends",  "absent",          "- M M - M M M - M b"),
    ("source lost while copying",     "migrating", "-",               "running, lands",  "- M M - M M M M M o"),
    ("source lost while preparing",   "migrating", "-",               "absent",          "- M M - M M M - M o"),
    ("moved",                         "running",   "-",               "running",         "- o o - o b t W W b"),
    ("stays",                         "running",   "running",         "-",               "- o o - o b t W W b"),
    ("unknown",                       "unknown",   "running",         "-",               "- o o - o b W W W b"),
    ("heard again",                   "running",   "running",         "-",               "- o o - o b t W W b"),
    ("left its host",                 "stopped",   "-",               "-",               "t - W W W n W W - x"),
    ("lost with its disk",            "lost",      "-",               "-",               "t - W W W n N W - x"),
    ("lost, keep",                    "stopped",   "-",               "-",               "t - W W W n W W - x"),
    ("lost, restart",                 "pending",   "-",               "-",               "- t W W W t W W - x"),
    ("deleting",                      "deleting",  "absent",          "-",               "W W W W W W W W W -"),
    ("deleting a stopped one",        "deleting",  "absent",          "-",               "W W W W W W W W W -"),
    ("deleting while it moves",       "deleting",  "absent",          "absent",          "W W W W W W W W W -"),
    ("deleting, unknown",             "unknown",   "absent",          "-",               "W W W W W W W W W -"),
    ("deleted before it was placed",  "deleting",  "-",               "-",               "W W W W W W W W W -"),
    ("deleted",                       "deleting",  "-",               "-",               "W W W W W W W W W -"),
    ("not placed at once",            "deleting",  "-",               "-",               "W W W W W W W W W -"),
]  # fmt: skip


def order_at(vm: Vm, host: str) -> str:
    order = order_for(vm, host)
    if order is None:
        return "-"
    assert order.vm == vm.id
    side = "" if order.migration is None else (", sends" if order.migration.is_source else ", lands")
    return f"{order.power}{side}"


def outcome(vm: Vm, wish) -> str:
    try:
        change = wish(vm)
    except HostlerError as error:
        return CODES[error.code] if error.hint and vm.name in error.message else f"{error!r} does not help"
    new = change.vm
    check_told(vm, change)
    assert msgspec.json.decode(msgspec.json.encode(new), type=Vm) == new
    if new == vm:
        assert not change.facts
        assert not change.hosts
        return "-"
    assert new.generation > vm.generation
    assert new.observed_generation <= new.generation
    assert new.move is None or new.moving is not None
    for host in change.hosts:
        assert order_for(new, host).generation == new.generation, "a repeated order is newer"
    if new.is_gone:
        return "x"
    hosts = {booking.host for booking in (new.home, new.other) if booking is not None}
    assert set(change.hosts) <= hosts
    return {(0, 0): "n", (1, 0): "o", (0, 1): "t", (1, 1): "b"}[bool(change.hosts), bool(change.facts)]


def test_the_table_has_every_situation():
    assert [row[0] for row in TABLE] == list(SITUATIONS)
    assert {row[1] for row in TABLE} == set(get_args(State))


@pytest.mark.parametrize(("name", "state", "first", "second", "outcomes"), TABLE, ids=list(SITUATIONS))
def test_a_situation_has_a_name_and_orders(name, state, first, second, outcomes):
    vm = SITUATIONS[name]
    assert state_of(vm) == state
    assert order_at(vm, "id-0") == first
    assert order_at(vm, "id-1") == second
    assert order_for(vm, "id-2") is None


@pytest.mark.parametrize(
    ("name", "wish", "expected"),
    [(row[0], wish, expected) for row in TABLE for wish, expected in zip(WISHES, row[4].split(), strict=True)],
)
def test_every_wish_in_every_situation(name, wish, expected):
    assert outcome(SITUATIONS[name], WISHES[wish]) == expected


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_protected_vm_is_not_deleted_until_the_protection_is_off(name):
    vm = SITUATIONS[name]
    if vm.power == "absent":
        return
    safe = desired_state.protect(vm, is_protected=True).vm
    assert state_of(safe) == state_of(vm)
    with pytest.raises(ProtectedError) as caught:
        desired_state.delete(safe)
    assert (caught.value.code, bool(caught.value.hint)) == ("deletion_protected", True)
    assert desired_state.protect(safe, is_protected=False).vm == vm
    assert desired_state.delete(desired_state.protect(safe, is_protected=False).vm).vm.power == "absent"


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_vm_survives_being_written_down(name):
    vm = SITUATIONS[name]
    assert msgspec.json.decode(msgspec.json.encode(vm), type=Vm) == vm


SETTLED = [name for name, vm in SITUATIONS.items() if is_settled(vm, vm.generation)]


def test_a_wish_is_settled_when_it_came_true_and_not_before():
    assert SETTLED == [
        "running", "running with a disk", "running on shared disks", "turned itself off", "paused", "stopped",
        "stopped, reserved", "stopped without a disk", "stopped before it was placed", "runs again", "unknown",
        "heard again", "left its host", "lost, keep", "deleted before it was placed", "deleted", "not placed at once",
    ]  # fmt: skip
    assert is_settled(running(), 1)
    assert not is_settled(desired_state.stop(running()).vm, 3)
