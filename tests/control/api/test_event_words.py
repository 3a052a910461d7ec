"""Events as people read them: times that follow the numbers, and no words of the engine."""

from __future__ import annotations

import time

import msgspec
import pytest

from hostler.control.access.principals import Principal
from hostler.control.api.requests.call import new_id
from hostler.control.schemas import VmCreate
from hostler.control.services.callers import Caller
from hostler.control.services.event_texts import action_text, fact_kind
from hostler.control.services.events import show_all
from hostler.control.services.vms import vm_changes
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.vms.spec import VmSpec
from hostler.web.lists import list_events_before
from tests.control.api.service_in_process import InProcessService, open_service

ADMIN = Principal(id="root", role="admin")


async def test_the_life_of_a_vm_is_shown_in_words_of_its_owner():
    async with open_service() as service:
        await service.add_hosts("a")
        made = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        await service.ask("POST", f"/v1/vms/{made}/stop")
        await service.settle()
        await service.ask("DELETE", f"/v1/vms/{made}")
        await service.settle()
        await service.ask("POST", "/v1/hosts/a/cordon")
        events = (await service.ask("GET", "/v1/events?limit=500")).json()["items"]
        told = [(one["kind"], one["text"]) for one in events]
        for expected in (
            ("vm.waiting", "web asks for a place"),
            ("vm.create", "asked to create web"),
            ("vm.placed", "placed on a"),
            ("vm.stop", "asked to stop web"),
            ("vm.delete", "asked to delete web"),
            ("host.joined", "host a joined"),
            ("host.cordon", "cordoned a"),
        ):
            assert expected in told
        for kind, text in told:
            assert "guest" not in kind + text
            assert "_" not in text
            assert not text.startswith(kind)


@pytest.mark.parametrize(
    ("what", "name", "text"),
    [
        ("vm.create", "web", "asked to create web"),
        ("vm.restart", "web", "asked to restart web"),
        ("project.delete", "red", "deleted red"),
        ("host.confirm-dead", "a", "confirmed that a is dead"),
        ("odd.thing", "{name}", "thing {name}"),
    ],
)
def test_a_deed_is_reported_after_who_did_it(what, name, text):
    assert action_text(what, name) == text


def test_facts_get_kinds_of_their_own():
    assert fact_kind("guest_bound") == "vm.placed"
    assert fact_kind("host_joined") == "host.joined"
    assert fact_kind("quotas_changed") == "quotas.changed"


def entry(seq: int, at_ns: int) -> log.StoredEntry:
    body = msgspec.json.encode({"what": "vm.create", "text": "x", "name": "x"})
    return log.StoredEntry(seq=seq, at_ns=at_ns * 10**9, kind="note", body=body)


def test_times_do_not_go_back_in_what_is_shown():
    shown = show_all([entry(1, 5), entry(2, 9), entry(3, 7), entry(4, 8), entry(5, 10)])
    assert [one.seq for one in shown] == [1, 2, 3, 4, 5]
    assert [one.at[17:19] for one in shown] == ["05", "09", "09", "09", "10"]


async def test_entries_of_joint_write_have_ordered_times():
    async with open_service(is_led=False) as service:
        now_ns = time.time_ns()
        await service.database.write(lambda connection: _create_two(connection, now_ns))
        entries = await service.database.read(lambda connection: log.read_after(connection, 0, 500))
        times = [one.at_ns for one in entries if one.subject.startswith("vm-")]
        assert len(times) == 4
        assert times == sorted(times)
        await _looked_back(service)


def _create_two(connection: Connection, now_ns: int) -> None:
    """Create two VMs jointly, the second asked for before the first."""
    names = iter(("vm-1", "vm-2"))
    creations = [
        vm_changes.Creation(
            asked=VmCreate(name=f"vm{number}", spec=VmSpec(cpu="1", memory="1Gi")),
            caller=Caller(principal=ADMIN, now_ns=now_ns + late),
            ids=lambda: next(names, "") or new_id(),
        )
        for number, late in ((1, 1000), (2, 0))
    ]
    vm_changes.create_many(connection, creations)


async def _looked_back(service: InProcessService) -> None:
    caller = Caller(principal=ADMIN, now_ns=time.time_ns())
    looked = await service.database.read(lambda connection: list_events_before(connection, caller, limit=500))
    times = [one.at for one in looked.items]
    assert times == sorted(times, reverse=True)
