"""A control plane in memory, behind the agent's Transport: it holds orders, takes reports and can lose messages."""

from __future__ import annotations

import asyncio
import random
from urllib.parse import parse_qs, urlsplit

import msgspec

from hostler.agent.connection.link import ServerResponse
from hostler.agent.messages import (
    JOIN_PATH,
    ORDERS_PATH,
    REGISTER_PATH,
    REPORT_PATH,
    HostSize,
    Join,
    Joined,
    Order,
    Orders,
    Register,
    Registered,
    Report,
    Reported,
    VmReport,
)
from hostler.runtime.transport import Request, TransportError

TOKEN = "join-me"


class FakeControlPlane:
    def __init__(self, *, seed: int = 0, loss: float = 0.0, stop_after_s: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.stop_after_s = stop_after_s
        self.heartbeat_s = 5.0
        self.is_down = False
        self.may_tear_down = False
        self.limit: HostSize | None = None
        self.credentials: set[str] = set()
        self.tokens = {TOKEN}
        self.new_credential = ""
        self.wants_resync = False
        self.version = 1
        self.orders: dict[str, tuple[int, Order]] = {}
        self.changed = asyncio.Event()
        self.registrations: list[Register] = []
        self.reports: list[Report] = []
        self.vms: dict[str, VmReport] = {}
        self.unknown: tuple[str, ...] = ()
        self.polls: list[int] = []
        self.epoch = 0
        self.last: dict[str, tuple[int, int]] = {}
        self.refuse_reports = 0
        self.calls: list[tuple[float, str]] = []  # when they came, lost ones too

    def order(self, order: Order) -> None:
        self.version += 1
        self.orders[order.vm] = (self.version, order)
        self.changed.set()
        self.changed = asyncio.Event()

    def drop(self, vm: str) -> None:
        self.version += 1
        self.orders.pop(vm, None)

    async def close(self) -> None:
        pass

    async def send(self, request: Request) -> ServerResponse:
        await asyncio.sleep(0.01)
        address = urlsplit(request.path)
        self.calls.append((asyncio.get_running_loop().time(), address.path))
        self._lose("lost on the way")
        if address.path == JOIN_PATH:
            response = self._join(msgspec.json.decode(request.body, type=Join))
        elif request.credential not in self.credentials:
            response = ServerResponse(status=401, body=b'{"code": "unknown_credential"}')
        elif address.path == REGISTER_PATH:
            response = self._register(msgspec.json.decode(request.body, type=Register))
        elif address.path == REPORT_PATH:
            response = self._report(msgspec.json.decode(request.body, type=Report))
        else:
            assert address.path == ORDERS_PATH
            query = parse_qs(address.query)
            response = await self._poll(int(query["from"][0]), float(query["wait_s"][0]))
        self._lose("the answer was lost")
        return response

    def _lose(self, what: str) -> None:
        if self.is_down or self.random.random() < self.loss:
            raise TransportError(what)

    def _join(self, message: Join) -> ServerResponse:
        if message.token not in self.tokens:
            return ServerResponse(status=401, body=b'{"code": "invalid_token"}')
        self.credentials.add("secret-1")
        return _answer(Joined(host="host-1", credential="secret-1", protocol=1))

    def _register(self, message: Register) -> ServerResponse:
        self.registrations.append(message)
        self.wants_resync = False
        self.epoch += 1
        self.last[message.agent] = (self.epoch, 0)
        self.vms = {report.vm: report for report in message.vms}
        self.unknown = message.unknown
        if self.new_credential:
            self.credentials = {*self.credentials, self.new_credential}
        return _answer(
            Registered(
                epoch=self.epoch,
                heartbeat_s=self.heartbeat_s,
                silent_after_s=15.0,
                stop_after_s=self.stop_after_s,
                limit=self.limit,
                credential=self.new_credential,
            )
        )

    def _report(self, message: Report) -> ServerResponse:
        if self.refuse_reports:
            self.refuse_reports -= 1
            return ServerResponse(status=409, body=b'{"code": "stale_report"}')
        if (message.epoch, message.sequence) <= self.last.get(message.agent, (0, 0)):
            return ServerResponse(status=409, body=b'{"code": "stale_report"}')
        self.last[message.agent] = (message.epoch, message.sequence)
        self.reports.append(message)
        self.vms |= {report.vm: report for report in message.vms}
        for vm in message.gone:
            self.vms.pop(vm, None)
        if message.unknown is not None:
            self.unknown = message.unknown
        return _answer(Reported(resync=self.wants_resync))

    async def _poll(self, version: int, wait_s: float) -> ServerResponse:
        self.polls.append(version)
        if version >= self.version:
            try:
                async with asyncio.timeout(wait_s):
                    await self.changed.wait()
            except TimeoutError:
                return ServerResponse(status=204)
        orders = tuple(order for since, order in self.orders.values() if version == 0 or since > version)
        return _answer(
            Orders(
                version=self.version,
                is_full=version == 0,
                orders=orders,
                allows_bulk_teardown=self.may_tear_down,
            )
        )


def _answer(message: msgspec.Struct) -> ServerResponse:
    return ServerResponse(status=200, body=msgspec.json.encode(message))
