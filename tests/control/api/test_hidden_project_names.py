"""Names that tenants, hosts and operators invent: what is over a bound gets a reason, and nobody blocks others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import text

from hostler.agent.messages import DeviceHere
from hostler.control.books import ledger
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.schemas import ReservationCreate
from hostler.control.services.tenancy import bounds, projects
from hostler.control.store import Connection
from hostler.control.store.rows import documents, hosts
from hostler.control.store.rows import projects as rows
from hostler.control.store.rows.documents import DocumentRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.engine.cluster.tables import MAX_KINDS, MAX_RESOURCES
from hostler.model import MAX_AMOUNT
from tests.control.api.service_in_process import GIB, SMALL, InProcessService, open_service

Json = dict[str, Any]


class Agent:
    """What a host says of its devices, over REST."""

    def __init__(self, service: InProcessService, name: str) -> None:
        self.name = name
        self._house = service
        self._credential = ""
        self._registrations = 0

    async def register(self, *devices: tuple[str, str]) -> httpx.Response:
        """Join if it has not yet; register with devices of these kinds and models."""
        if not self._credential:
            token = (await self._house.ask("POST", "/v1/tokens", json={"host_name": self.name})).json()["secret"]
            joined = await self._send("join", {"token": token, "name": self.name, "protocols": [1, 2]})
            self._credential = joined.json()["credential"]
        self._registrations += 1
        size = {"cpu_millis": 64_000, "memory_bytes": 64 * GIB, "disk_bytes": 100 * GIB}
        message = {
            "boot": "boot",
            "agent": f"agent of {self.name}",
            "version": "1",
            "driver": "fake",
            "capabilities": {},
            "size": {**size, "devices": [{"kind": kind, "model": model} for kind, model in devices]},
            "sequence": self._registrations,
            "protocols": [1, 2],
        }
        return await self._send("register", message)

    async def _send(self, path: str, message: Json) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._credential}"} if self._credential else {"Authorization": ""}
        return await self._house.client.post(f"/agent/v1/{path}", json=message, headers=headers)


def gpu(*models: str) -> Json:
    return {**SMALL, "devices": [{"kind": "gpu", "models": list(models)}]}


async def invent(service: InProcessService, key: str, prefix: str, count: int) -> None:
    """Let tenant one create and delete VMs with 64 invented models each; what is over the bounds gets a reason."""
    over = {"name": "over", "project": "one", "spec": gpu(*(f"{prefix}.over.{n}" for n in range(65)))}
    rejected = await service.as_key(key, "POST", "/v1/vms", json=over)
    assert (rejected.status_code, "65 models" in rejected.text) == (400, True), rejected.text
    for batch in range(count):
        spec = gpu(*(f"{prefix}.{batch}.{n}" for n in range(64)))
        body = {"name": f"{prefix}-{batch}", "project": "one", "spec": spec}
        made = await service.as_key(key, "POST", "/v1/vms", json=body)
        assert made.status_code == 202, made.text
        gone = await service.as_key(key, "DELETE", f"/v1/vms/{made.json()['vm']['id']}")
        assert gone.status_code in (200, 202), gone.text
    await service.settle()


async def place(service: InProcessService, key: str, name: str, model: str) -> None:
    """Let tenant two ask for a GPU that nobody has, then let a host with that new model register."""
    made = await service.as_key(key, "POST", "/v1/vms", json={"name": name, "project": "two", "spec": gpu(model)})
    assert made.status_code == 202, made.text
    path = f"/v1/vms/{made.json()['vm']['id']}"
    await service.settle()
    waiting = (await service.as_key(key, "GET", path)).json()
    assert (waiting["state"], bool(waiting["why"])) == ("pending", True), waiting
    answer = await Agent(service, f"host-{model}").register(("gpu", model))
    assert answer.status_code == 200, answer.text
    await service.settle()
    placed = (await service.as_key(key, "GET", path)).json()
    assert placed["host"], placed


@pytest.mark.parametrize("beginning", ["checkpoint", "log"])
async def test_names_of_one_tenant_block_no_other_also_after_a_restart(tmp_path: Path, beginning: str) -> None:
    """Tenant one and a host invent thousands of models; tenant two's VMs and new hosts work, and after a restart."""
    url = f"sqlite:///{tmp_path / 'control.db'}"

    async with open_service(url=url) as service:
        secret = service.secret
        for project in ("one", "two"):
            assert (await service.ask("POST", "/v1/projects", json={"name": project})).status_code == 201
        one, two = await service.key("editor", "one"), await service.key("editor", "two")
        await invent(service, one, "before", 40)
        rogue = Agent(service, "rogue")
        over = await rogue.register(*(("gpu", f"over-{n}") for n in range(17)))
        assert (over.status_code, over.json()["code"]) == (422, "message_out_of_bounds")
        for batch in range(20):
            answer = await rogue.register(*(("gpu", f"rogue-{batch}-{n}") for n in range(16)))
            assert answer.status_code == 200, answer.text
        await place(service, two, "first", "t4")
    async with open_service(url=url, secret=secret, is_led=False) as service:
        if beginning == "log":
            await service.database.write(
                lambda connection: connection.execute(text("DELETE FROM checkpoints")).rowcount
            )
    async with open_service(url=url, secret=secret) as service:
        assert not service.context.books.trouble
        kept = (await service.as_key(two, "GET", "/v1/vms")).json()["items"]
        assert [bool(vm["host"]) for vm in kept] == [True]
        await invent(service, one, "after", 10)
        await place(service, two, "second", "b200")
        models, _ = await service.context.books.ask(lambda engine: engine.view.device_model_count)
        assert models < 32  # those that hosts have now


async def test_hosts_that_fill_the_table_block_no_host_that_was_there_first() -> None:
    """Rogue hosts take all kinds of devices; a new kind is rejected with a reason, until some of them are deleted."""

    async with open_service() as service:
        honest = Agent(service, "honest")
        assert (await honest.register(("gpu", "t4"), ("fpga", "x"))).status_code == 200
        for n in range(64):
            left = MAX_KINDS - 3 - 16 * n  # a gpu, an fpga and the number for what nobody has
            kinds = [(f"rogue-{n}.{k}", "m") for k in range(min(left, 16))]
            answer = await Agent(service, f"rogue-{n}").register(*kinds)
            assert answer.status_code == 200, answer.text
        await service.caught_up()
        full = await Agent(service, "late").register(("tpu", "v4"))
        assert (full.status_code, full.json()["code"]) == (503, "device_names_full"), full.text
        assert "1024 different device kinds" in full.json()["detail"]
        assert (await honest.register(("gpu", "t4"), ("fpga", "x"))).status_code == 200
        assert (await Agent(service, "plain").register(("gpu", "t4"))).status_code == 200
        # A host that was there keeps what it had, and says why it has not got more.
        assert (await honest.register(("gpu", "t4"), ("nic", "new"))).status_code == 200
        shown = (await service.ask("GET", "/v1/hosts/honest")).json()
        assert shown["devices"] == ["gpu:t4", "fpga:x"]
        assert "different device kinds" in shown["trouble"]
        gone = await service.ask("DELETE", "/v1/hosts/rogue-0", params={"confirm": "rogue-0"})
        assert gone.status_code == 204, gone.text
        await service.caught_up()
        assert (await honest.register(("gpu", "t4"), ("nic", "new"))).status_code == 200
        shown = (await service.ask("GET", "/v1/hosts/honest")).json()
        assert (shown["devices"], shown["trouble"]) == (["gpu:t4", "nic:new"], "")


async def test_hosts_that_take_the_last_names_at_once_say_why_they_lack_devices() -> None:
    """Both registrations found room before the engine knew of either: the second host counts without its devices."""

    async with open_service() as service:
        for n in range(63):
            answer = await Agent(service, f"rogue-{n}").register(*((f"{n}.{k}", "m") for k in range(16)))
            assert answer.status_code == 200, answer.text
        await service.caught_up()
        await service.add_hosts("x", "y")

        def work(connection: Connection) -> None:
            for name in ("x", "y"):
                row = hosts.find_by_name(connection, name)
                assert row is not None
                body = read_body(row)
                devices = tuple(DeviceHere(kind=f"{name}.{k}") for k in range(10))
                body = msgspec.structs.replace(body, size=msgspec.structs.replace(body.size, devices=devices))
                announce(connection, row, row, body, actor="test", now_ns=1)

        await service.database.write(work)
        await service.caught_up()
        x, y = [(await service.ask("GET", f"/v1/hosts/{name}")).json() for name in ("x", "y")]
        assert (len(x["devices"]), x["trouble"]) == (10, "")
        assert y["devices"] == []
        assert "different device kinds" in y["trouble"]
        assert "counts without its devices" in y["trouble"]
        assert "its old size counts" not in y["trouble"]
        made = await service.create("lands", spec={"host_name": "y"})
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{made.json()['vm']['id']}")).json()["host"] == "y"


async def test_vm_that_the_engine_rejects_shows_why_over_rest() -> None:
    """A VM of an older version names a strategy that there is no more."""

    async with open_service() as service:
        await service.add_hosts("north")
        change = desired_state.create("old", "default", "old", VmSpec(**SMALL, strategy="of-an-older-version"))
        await service.database.write(lambda connection: ledger.insert(connection, change, actor="t", now_ns=1))
        await service.settle()
        shown = (await service.ask("GET", "/v1/vms/old")).json()
        assert shown["state"] == "pending"
        assert shown["why"].startswith("the scheduler rejects it: there is no policy 'of-an-older-version'")
        explained = await service.ask("GET", "/v1/vms/old/decision")
        assert (explained.status_code, "the scheduler rejects it" in explained.text) == (404, True), explained.text
        listed = (await service.ask("GET", "/v1/vms")).json()["items"]
        assert [one["why"] for one in listed] == [shown["why"]]


async def test_vm_with_a_rule_that_the_engine_rejects_is_rejected_at_once() -> None:
    async with open_service() as service:
        rule = {"selector": {"app": "web"}, "topology": ""}
        found = await service.create("web", spec={"anti_affinity": [rule]})
        assert found.status_code == 400, found.text


async def test_reservations_over_their_bounds_are_rejected_with_a_reason() -> None:
    """Eight invented resources each, 32 for a project, a hundred reservations; another project is not concerned."""

    async with open_service() as service:
        for project in ("one", "two"):
            assert (await service.ask("POST", "/v1/projects", json={"name": project})).status_code == 201

        async def reserve(project: str, name: str, *resources: str) -> httpx.Response:
            amounts = {"cpu": 1} | dict.fromkeys(resources, 1)
            body = {"project": project, "name": name, "amounts": amounts}
            return await service.ask("POST", "/v1/reservations", json=body)

        nine = await reserve("one", "nine", *(f"r{n}" for n in range(9)))
        assert (nine.status_code, "9 resources" in nine.text) == (400, True), nine.text
        for batch in range(4):
            made = await reserve("one", f"r{batch}", *(f"r{batch}.{n}" for n in range(8)))
            assert made.status_code == 201, made.text
        full = await reserve("one", "more", "one-more")
        assert (full.status_code, full.json()["code"]) == (409, "too_many_in_project"), full.text
        edited = await service.ask(
            "PATCH",
            "/v1/reservations/one/r0",
            json={"amounts": {"a": 1, "b": 1} | dict.fromkeys((f"c{n}" for n in range(7)), 1)},
        )
        assert edited.status_code == 400, edited.text
        assert (await reserve("two", "more", "one-more")).status_code == 201
        for n in range(4, bounds.MAX_RESERVATIONS_OF_PROJECT):
            assert (await reserve("one", f"plain-{n}")).status_code == 201
        over = await reserve("one", "last")
        assert (over.status_code, over.json()["code"]) == (409, "too_many_in_project"), over.text
        terms = [{"names": [f"h{n}"]} for n in range(65)]
        many = {"project": "two", "name": "terms", "amounts": {"cpu": 1}, "hosts": terms}
        assert (await service.ask("POST", "/v1/reservations", json=many)).status_code == 400


async def test_tenancy_at_every_bound_is_taken_by_the_engine() -> None:
    """A gang that was released after 2^62 ns was stored, and for the engine nobody had made it."""

    async with open_service() as service:
        most = {"cpu": str(MAX_AMOUNT // 1000), "memory": str(MAX_AMOUNT)}
        gang = {"name": "g", "min_count": 2**31 - 1, "max_count": 2**31 - 1, "priority": 2**31 - 1}
        never = await service.ask("POST", "/v1/gangs", json={**gang, "release_after": f"{MAX_AMOUNT}ns"})
        assert (never.status_code, "release_after" in never.text) == (400, True), never.text
        for path, body in (
            ("gangs", {**gang, "release_after": f"{MAX_AMOUNT - 1}ns"}),
            ("quotas", {"project": "default", "min": most, "max": {**most, "guests": MAX_AMOUNT}}),
            ("reservations", {"name": "r", "amounts": most, "until": "2116-02-20T00:00:00Z"}),
        ):
            made = await service.ask("POST", f"/v1/{path}", json=body)
            assert made.status_code == 201, made.text
        await service.caught_up()
        assert service.context.books.refused == 0, service.said


async def test_reservation_that_the_engine_rejects_says_why() -> None:
    """It is of an older version, in which reservations could name any number of resources."""

    async with open_service() as service:
        await service.add_hosts("north")
        amounts = dict.fromkeys((f"r{n}" for n in range(MAX_RESOURCES + 1)), 1)
        asked = ReservationCreate(name="old", amounts=amounts)
        body = msgspec.json.encode(asked)

        def write(connection: Connection) -> None:
            document = DocumentRow(project="default", name="old", body=body, created_ns=1, updated_ns=1)
            documents.insert(connection, "reservation", document)

        await service.database.write(write)
        found = await service.ask("GET", "/v1/reservations/default/old")
        assert found.status_code == 200, found.text
        assert found.json()["note"].startswith("nothing is kept: hosts have more than 1024 different resources")


@pytest.mark.parametrize(
    "taints",
    [
        pytest.param([{"key": f"k{n}"} for n in range(65)], id="too many"),
        pytest.param([{"key": "k" * 254}], id="long key"),
        pytest.param([{"key": "k", "value": "v" * 254}], id="long value"),
    ],
)
async def test_taints_over_their_bounds_are_rejected_with_a_reason(taints: list[Json]) -> None:
    async with open_service() as service:
        await service.add_hosts("north")
        answer = await service.ask("PATCH", "/v1/hosts/north", json={"taints": taints})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input"), answer.text
        assert "taints" in answer.json()["detail"]


async def test_project_beyond_what_the_service_holds_is_rejected_with_a_reason() -> None:
    async with open_service() as service:

        def fill(connection: Connection) -> None:
            for number in range(projects.MAX_PROJECTS - rows.count(connection)):
                rows.insert(connection, ProjectRow(name=f"p{number}"))

        await service.database.write(fill)
        answer = await service.ask("POST", "/v1/projects", json={"name": "more"})
        assert (answer.status_code, answer.json()["code"]) == (409, "too_many_in_service"), answer.text
        assert (await service.ask("DELETE", "/v1/projects/p0")).status_code == 204
        assert (await service.ask("POST", "/v1/projects", json={"name": "more"})).status_code == 201
