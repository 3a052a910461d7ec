"""VMs over REST: from asking to running to gone, waiting, placing at once or not at all, and explanations."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.control.settings import ControlSettings
from hostler.control.vms.guests import HAS_BRIDGE, YES
from tests.control.api.service_in_process import SMALL, InProcessService, open_service


async def obeying(service: InProcessService, stop: asyncio.Event) -> None:
    """Let hosts do as they are told while something else waits."""
    while not stop.is_set():
        await service.obey()
        await asyncio.sleep(0.01)


async def get(service: InProcessService, identity: str) -> dict[str, Any]:
    answer = await service.ask("GET", f"/v1/vms/{identity}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_vm_lives_from_create_to_delete() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.create("web")
        assert made.status_code == 202
        identity = made.json()["vm"]["id"]
        assert made.json()["operation"]["state"] == "pending"
        await service.settle()
        assert (await get(service, identity))["state"] == "running"
        operation = made.json()["operation"]["id"]
        assert (await service.ask("GET", f"/v1/operations/{operation}")).json()["state"] == "done"
        for verb, state in (
            ("pause", "paused"),
            ("resume", "running"),
            ("restart", "running"),
            ("stop", "stopped"),
            ("start", "running"),
        ):
            answer = await service.ask("POST", f"/v1/vms/{identity}/{verb}")
            assert answer.status_code == 202, answer.text
            assert answer.json()["operation"]["kind"] == f"vm.{verb}"
            await service.settle()
            assert (await get(service, identity))["state"] == state, verb
        assert (await service.ask("DELETE", f"/v1/vms/{identity}")).status_code == 202
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{identity}")).status_code == 404
        assert (await service.ask("GET", "/v1/vms")).json()["items"] == []
        states = {one["state"] for one in (await service.ask("GET", "/v1/operations")).json()["items"]}
        assert states == {"done"}


async def test_what_is_so_already_is_done_at_once() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        identity = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        answer = await service.ask("POST", f"/v1/vms/{identity}/start")
        assert (answer.status_code, answer.json()["operation"]["state"]) == (200, "done")
        wrong = await service.ask("POST", f"/v1/vms/{identity}/stop")
        assert wrong.status_code == 202
        await service.settle()
        for verb in ("pause", "restart", "resume"):
            refused = await service.ask("POST", f"/v1/vms/{identity}/{verb}")
            assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state"), verb


async def test_waiting_ends_with_the_operation_and_without_one_with_the_time() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        stop = asyncio.Event()
        hosts = asyncio.ensure_future(obeying(service, stop))
        done = await service.create("web", wait=30)
        assert (done.status_code, done.json()["operation"]["state"]) == (200, "done")
        assert done.json()["vm"]["state"] == "running"
        never = await service.create("huge", wait=0.05, spec={"cpu": "100"})
        assert (never.status_code, never.json()["operation"]["state"]) == (202, "pending")
        assert "insufficient cpu" in never.json()["vm"]["why"] or never.json()["vm"]["why"] == ""
        gone = await service.ask("DELETE", f"/v1/vms/{done.json()['vm']['id']}", params={"wait": 30})
        assert (gone.status_code, gone.json()["operation"]["state"]) == (200, "done")
        operation = never.json()["operation"]["id"]
        looked = await service.ask("GET", f"/v1/operations/{operation}", params={"wait": 0.05})
        assert looked.json()["state"] == "pending"
        stop.set()
        await hosts


async def test_unplaceable_vm_waits_with_reason_until_there_is_room() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        identity = (await service.create("big", spec={"cpu": "6"})).json()["vm"]["id"]
        await service.settle()
        vm = await get(service, identity)
        assert (vm["state"], vm["host"]) == ("pending", None)
        assert vm["why"] == "0 of 1 host: 1 insufficient cpu"
        assert [one["status"] for one in vm["conditions"] if one["type"] == "placed"] == [False]
        queue = (await service.ask("GET", "/v1/queue")).json()
        assert [(one["name"], one["why"]) for one in queue["items"]] == [("big", vm["why"])]
        decision = (await service.ask("GET", f"/v1/vms/{identity}/decision")).json()
        assert decision["chosen"] is None
        assert decision["verdicts"][0]["failures"][0]["missing"] == 2000
        assert decision["seq"] == service.context.books.seq
        await service.add_hosts("b", cpu=8)
        await service.settle()
        assert (await get(service, identity))["host"] == "b"
        assert (await service.ask("GET", "/v1/queue")).json()["items"] == []


async def test_vm_placed_at_once_is_rejected_by_first_of_four_reasons() -> None:
    fail = {"on_unplaceable": "fail"}
    async with open_service(is_led=False) as service:
        wrong = await service.create("x", spec={"strategy": "bestfit"}, **fail)
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_strategy")
        nobody = await service.create("x", **fail)
        assert (nobody.status_code, nobody.json()["code"]) == (503, "agent_service_unavailable")
        assert int(nobody.headers["retry-after"]) >= 1
    async with open_service() as service:
        for state in ("joined", "silent", "offline"):
            await service.add_hosts(state, state=state)
        none = await service.create("x", spec={"cpu": "100"}, **fail)
        assert (none.status_code, none.json()["code"]) == (503, "no_available_agents")
        assert "retry-after" in none.headers
        await service.add_hosts("a", cpu=4)
        full = await service.create("x", spec={"cpu": "100"}, **fail)
        assert (full.status_code, full.json()["code"]) == (409, "insufficient_resources")
        assert full.json()["decision"]["verdicts"][-1]["failures"]
        fits = await service.create("x", **fail)
        assert (fits.status_code, fits.json()["vm"]["host"]) == (202, "a")
        listed = (await service.ask("GET", "/v1/vms")).json()["items"]
        assert [one["name"] for one in listed] == ["x"]
        failed = (await service.ask("GET", "/v1/operations?state=failed")).json()["items"]
        assert [one["error"] for one in failed] == ["0 of 3 hosts: 2 not taking VMs, 1 insufficient cpu"]


async def test_a_refusal_is_given_again_for_the_same_key() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        body = {"name": "x", "spec": {**SMALL, "cpu": "100"}, "on_unplaceable": "fail"}
        for _ in range(2):
            answer = await service.ask("POST", "/v1/vms", json=body, headers={"Idempotency-Key": "k"})
            assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")


async def test_nobody_decides_so_the_vm_goes_again() -> None:
    async with open_service(is_led=False, settings=ControlSettings(verdict_s=0.05)) as service:
        await service.add_hosts("a")
        held = await service.database.write(_taken)
        assert held
        answer = await service.create("x", on_unplaceable="fail", protected=True)
        assert (answer.status_code, answer.json()["code"]) == (503, "agent_service_unavailable")
        assert (await service.ask("GET", "/v1/vms")).json()["items"] == []


def _taken(connection: Any) -> bool:
    """Let a replica hold the lease that never decides."""
    from hostler.control.store.history import lease

    return lease.take(connection, "a replica that hangs", 60.0) is not None


async def test_resizing_merges_and_says_what_cannot_change() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.create("web", spec={"labels": {"app": "web", "tier": "1"}, "priority": 5})
        path = f"/v1/vms/{made.json()['vm']['id']}"
        await service.settle()
        change = {"spec": {"cpu": "2", "labels": {"tier": None, "zone": "x"}, "priority": None}}
        answer = await service.ask("PATCH", path, json=change)
        assert answer.status_code == 202, answer.text
        assert answer.json()["operation"]["kind"] == "vm.resize"
        await service.settle()
        spec = (await service.ask("GET", path)).json()["spec"]
        assert spec == {"cpu": "2", "memory": "1Gi", "labels": {"app": "web", "zone": "x"}}
        for label, count in (("zone=x", 1), ("tier=1", 0)):
            found = (await service.ask("GET", "/v1/vms", params={"label": label})).json()["items"]
            assert len(found) == count, label
        fixed = await service.ask("PATCH", path, json={"spec": {"disks": [{"size": "1Gi"}]}})
        assert (fixed.status_code, fixed.json()["code"]) == (400, "invalid_input")
        assert "disks" in fixed.json()["detail"]
        nothing = await service.ask("PATCH", path, json={})
        assert (nothing.status_code, nothing.json()["operation"]["state"]) == (200, "done")
        unknown = await service.ask("PATCH", path, json={"spec": {"colour": "red"}})
        assert "colour" in unknown.json()["detail"]
        needed = await service.ask("PATCH", path, json={"spec": {"cpu": None}})
        assert (needed.status_code, "cpu" in needed.json()["detail"]) == (400, True)


async def test_a_protected_vm_is_not_deleted() -> None:
    async with open_service() as service:
        path = f"/v1/vms/{(await service.create('web', protected=True)).json()['vm']['id']}"
        refused = await service.ask("DELETE", path)
        assert (refused.status_code, refused.json()["code"]) == (409, "deletion_protected")
        await service.ask("PATCH", path, json={"protected": False})
        assert (await service.ask("DELETE", path)).status_code == 200


async def test_a_vm_moves_to_the_host_that_was_named() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        made = (await service.create("web", spec={"host_selector": {"kubernetes.io/hostname": "a"}})).json()
        path = f"/v1/vms/{made['vm']['id']}"
        await service.settle()
        unknown = await service.ask("POST", f"{path}/migrate", json={"host": "c"})
        assert (unknown.status_code, unknown.json()["code"]) == (400, "invalid_input")
        await service.ask("PATCH", path, json={"spec": {"host_selector": {"kubernetes.io/hostname": None}}})
        await service.settle()
        moved = await service.ask("POST", f"{path}/migrate", json={"host": "b"})
        assert moved.status_code == 202, moved.text
        await service.caught_up()
        vm = (await service.ask("GET", path)).json()
        assert (vm["state"], vm["moving_to"]) == ("migrating", "b")
        again = await service.ask("POST", f"{path}/migrate")
        assert (again.status_code, again.json()["code"]) == (409, "migrating")


async def test_a_vm_with_a_disk_on_its_host_cannot_move() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        made = await service.create("web", spec={"disks": [{"size": "1Gi"}]})
        await service.settle()
        refused = await service.ask("POST", f"/v1/vms/{made.json()['vm']['id']}/migrate")
        assert (refused.status_code, refused.json()["code"]) == (400, "not_movable")


async def test_what_happened_to_a_vm_is_shown_in_order() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.ask(
            "POST", "/v1/vms", json={"name": "web", "spec": SMALL}, headers={"X-Request-Id": "req-1"}
        )
        path = f"/v1/vms/{made.json()['vm']['id']}"
        await service.settle()
        await service.ask("POST", f"{path}/stop")
        events = (await service.ask("GET", f"{path}/events")).json()["items"]
        kinds = [event["kind"] for event in events]
        assert kinds == ["vm.waiting", "vm.create", "vm.placed", "vm.running", "vm.stop"]
        assert events[2]["text"] == "placed on a"
        assert [event["request_id"] for event in events][1] == "req-1"
        assert events[1]["actor"].startswith("key:")
        page = (await service.ask("GET", f"{path}/events?limit=1")).json()
        assert (len(page["items"]), page["next"]) == (1, str(events[0]["seq"]))
        rest = (await service.ask("GET", f"{path}/events", params={"after": page["next"]})).json()["items"]
        assert rest == events[1:]


async def test_a_stopped_vm_is_explained_as_if_it_were_started() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        path = f"/v1/vms/{(await service.create('web')).json()['vm']['id']}"
        await service.settle()
        await service.ask("POST", f"{path}/stop")
        await service.settle()
        before = service.context.books.seq
        decision = (await service.ask("GET", f"{path}/decision")).json()
        assert decision["feasible"]
        assert service.context.books.seq == before


async def test_labels_of_hosts_and_bridges_are_kept_to() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        await service.describe("b", labels=((f"{HAS_BRIDGE}br0", YES),))
        made = await service.create("web", spec={"network": {"kind": "bridge", "bridge": "br0"}})
        await service.settle()
        assert (await get(service, made.json()["vm"]["id"]))["host"] == "b"
