"""Agents that have more to say than REST takes in one body, against the real service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link, ServerResponse
from hostler.agent.core.message_size import MOST_BYTES
from hostler.agent.core.state import Record
from hostler.agent.drivers.fake import FakeDriver, FakeVm
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import MOST_UNKNOWN, REGISTER_PATH, REPORT_PATH, Order, Register, Report
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.control.api.requests import request_decoder
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.runtime.transport import Request
from tests.control.api.service_in_process import InProcessService, open_service
from tests.recorded_log import recorded_log

GIVE_UP_S = 60


class HouseTransport:
    """Carries an agent's messages to a service; ``most`` is what a proxy between them takes of a body."""

    def __init__(self, service: InProcessService, most: int = 1 << 30) -> None:
        self.service = service
        self.most = most
        self.sent: list[tuple[Request, int]] = []

    async def send(self, request: Request) -> ServerResponse:
        headers = {"Authorization": f"Bearer {request.credential}" if request.credential else ""}
        headers["Content-Type"] = "application/json"
        if len(request.body) > self.most:
            response = ServerResponse(status=413, body=b"<html>too large</html>")
        else:
            answer = await self.service.client.request(
                request.method, request.path, content=request.body, headers=headers
            )
            response = ServerResponse(status=answer.status_code, body=answer.content)
        self.sent.append((request, response.status))
        return response

    async def close(self) -> None:
        pass

    def registrations(self) -> list[tuple[Register, int]]:
        return [(msgspec.json.decode(one.body, type=Register), status) for one, status in self._at(REGISTER_PATH)]

    def reports(self) -> list[tuple[Report, int]]:
        return [(msgspec.json.decode(one.body, type=Report), status) for one, status in self._at(REPORT_PATH)]

    def reported_vms(self) -> set[str]:
        registered = [one.vms for one, status in self.registrations() if status == 200]
        reported = [one.vms for one, status in self.reports() if status == 200]
        return {report.vm for vms in (*registered, *reported) for report in vms}

    def _at(self, path: str) -> list[tuple[Request, int]]:
        return [(one, status) for one, status in self.sent if one.path == path]


class Host:
    """An agent on a fake driver; what a disk would keep outlives the agent."""

    def __init__(self, service: InProcessService, name: str = "north", **transport: int) -> None:
        self.driver = FakeDriver(name)
        self.manifest = MemoryManifest()
        self.credentials = MemoryCredentials()
        self.transport = HouseTransport(service, **transport)
        self.settings = AgentSettings(name=name, look_s=0.2, poll_s=0.2, grace_s=0.0)
        self.told: list[str] = []

    def keep(self, vm: str) -> None:
        """Let it have a VM that it made for another control plane."""
        order = Order(vm=vm, generation=1, power="stopped")
        self.driver.vms[vm] = FakeVm(order=order)
        self.manifest.records[vm] = Record(vm=vm, generation=1, made=order)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        service = self.transport.service
        token = (await service.ask("POST", "/v1/tokens")).json()["secret"] if self.credentials.load() is None else ""
        agent = Agent(
            Link(self.transport, self.credentials), self.driver, self.manifest, self.settings,
            boot="boot-1", run_id=uuid.uuid4().hex, token=token, log=recorded_log(self.told),
        )  # fmt: skip
        stopping = asyncio.Event()
        task = asyncio.get_running_loop().create_task(agent.run(stopping))
        try:
            yield
        finally:
            stopping.set()
            await task


async def until(is_so: Callable[[], object], saw: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(GIVE_UP_S):
            while not is_so():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never so: {saw()}") from None


async def row_of(service: InProcessService, name: str = "north") -> HostRow:
    found = await service.database.read(lambda connection: hosts.find_by_name(connection, name))
    assert found is not None
    return found


def statuses(transport: HouseTransport) -> list[tuple[str, int, int]]:
    return [(one.path, len(one.body), status) for one, status in transport.sent][-10:]


def test_agents_and_rest_agree_on_the_size_of_a_body() -> None:
    assert MOST_BYTES <= request_decoder.MOST_BYTES


async def test_registration_with_long_names_of_unknown_vms_is_taken() -> None:
    """Thousands of VMs that nobody ordered, each with the longest name in the widest letters."""

    async with open_service() as service:
        host = Host(service)
        for number in range(3000):
            vm = f"{number:04d}" + "\N{FLOPPY DISK}" * 400
            order = Order(vm=vm, generation=1, power="running", memory_bytes=2**20)
            host.driver.vms[vm] = FakeVm(order=order, power="running", is_ours=False)
        async with host.running():
            await until(host.transport.registrations, lambda: statuses(host.transport))
            await until(host.transport.reports, lambda: statuses(host.transport))
        (message, status), *_ = host.transport.registrations()
        assert status == 200
        assert {status for _, status in host.transport.reports()} == {200}
        assert max(len(one.body) for one, _ in host.transport.sent) <= MOST_BYTES
        assert len(message.unknown) + message.unknown_left_out == 3000
        assert len(message.unknown) <= MOST_UNKNOWN
        assert sum(one.memory_bytes for one in message.taken) == 3000 * 2**20, "no room is given away"
        found = (await service.ask("GET", "/v1/hosts/north")).json()
        assert f"it has {message.unknown_left_out:,} more VMs without an order than it can list" in found["trouble"]


async def test_registration_with_too_many_vms_goes_on_in_reports() -> None:
    """A VM that found no room in the registration is not taken for gone; all are reported in the end."""

    async with open_service() as service:
        host = Host(service)
        async with host.running():
            await until(host.transport.reports, lambda: statuses(host.transport))
            created = await service.create("web", spec={"disks": [{"size": "1Gi"}]})
            vm = str(created.json()["vm"]["id"])
            await until(lambda: host.driver.vms.get(vm) and host.driver.vms[vm].power == "running", lambda: vm)
            await until(lambda: vm in host.transport.reported_vms(), lambda: statuses(host.transport))
        host.transport.sent.clear()
        record = host.manifest.records.pop(vm)
        others = [f"{number:05d}{'v' * 55}" for number in range(6000)]
        for other in others:
            host.keep(other)
        host.manifest.records[vm] = record
        async with host.running():
            await until(lambda: len(host.transport.reported_vms()) == 6001, lambda: statuses(host.transport))
            registration, status = host.transport.registrations()[0]
            assert status == 200
            assert registration.vms_left_out > 0
            assert vm not in {report.vm for report in registration.vms}
            assert len(registration.vms) + registration.vms_left_out == 6001
        assert max(len(one.body) for one, _ in host.transport.sent) <= MOST_BYTES
        assert {status for _, status in host.transport.sent} <= {200, 204}
        assert host.transport.reported_vms() == {vm, *others}
        found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert (found["state"], found["host"]) == ("running", "north")


async def test_report_above_the_limit_is_shown_in_parts() -> None:
    """Ten thousand VMs appear at once on a host that has registered."""

    async with open_service() as service:
        host = Host(service)
        async with host.running():
            await until(host.transport.reports, lambda: statuses(host.transport))
            host.driver.vms |= {
                f"{number:05d}" + "\N{FLOPPY DISK}" * 300: FakeVm(
                    order=Order(vm="x", generation=1, power="running", memory_bytes=2**20),
                    power="running",
                    is_ours=False,
                )
                for number in range(5000)
            }
            await until(
                lambda: any(one.unknown_left_out for one, _ in host.transport.reports()),
                lambda: statuses(host.transport),
            )
        assert {status for _, status in host.transport.reports()} == {200}
        assert max(len(one.body) for one, _ in host.transport.sent) <= MOST_BYTES
        body = read_body(await row_of(service))
        assert len(body.unknown) + body.unknown_left_out == 5000


@pytest.mark.parametrize("path", [REGISTER_PATH, REPORT_PATH])
async def test_body_above_the_limit_is_answered_by_a_problem(path: str) -> None:
    async with open_service() as service:
        host = Host(service)
        async with host.running():
            await until(host.transport.reports, lambda: statuses(host.transport))
        identity = host.credentials.load()
        assert identity is not None
        body = b'{"boot": "' + b"b" * request_decoder.MOST_BYTES + b'"}'
        headers = {"Authorization": f"Bearer {identity.credential}", "Content-Type": "application/json"}
        answer = await service.client.request("POST", path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_agent_behind_a_proxy_with_a_smaller_limit_says_less_at_once() -> None:
    """It does not try the same again and again: each try is half as large, after a pause, and is logged."""

    async with open_service() as service:
        host = Host(service, most=400_000)
        others = [f"{number:05d}{'v' * 55}" for number in range(4000)]
        for other in others:
            host.keep(other)
        async with host.running():
            await until(lambda: len(host.transport.reported_vms()) == 4000, lambda: statuses(host.transport))
        refused = [len(one.body) for one, status in host.transport.sent if status == 413]
        assert 1 <= len(refused) <= 4
        assert refused == sorted(refused, reverse=True)
        assert any("too large for the control plane" in line for line in host.told)
