"""Hosts for tests of what is promised over REST: the least that an agent must say, and nothing of our agent's code.

A hand joins, registers, asks for its orders and reports each as carried out. It can fall silent and come back. What it
has of each VM is its own count of what runs.
"""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import GIB, InProcessService

__all__ = ["FakeHost"]

Json = dict[str, Any]
_EASE = {"running": 0, "paused": 1, "stopped": 2, "absent": 3}  # what takes room comes first, what frees it last
_CAN = {"pause": True, "resize_running": True, "live_migration": True, "disks": True}


class FakeHost:
    """One host. ``on_the_way`` is shared by all: VMs that a source has sent and a target has not let run yet."""

    def __init__(self, service: InProcessService, name: str, cores: int, on_the_way: set[str]) -> None:
        self.name = name
        self.cores = cores
        self.is_silent = False
        self.peak = 0  # the most millis that ever ran here at once
        self.here: dict[str, Json] = {}  # VM to its last order
        self._house = service
        self._on_the_way = on_the_way
        self._credential = ""
        self._epoch = 0
        self._sequence = 0
        self._registrations = 0
        self._told: dict[str, Json] = {}  # VM to its last report

    async def join(self) -> None:
        """Join by a token and register."""
        token = (await self._house.ask("POST", "/v1/tokens", json={"host_name": self.name})).json()["secret"]
        answer = await self._send("join", {"token": token, "name": self.name, "protocols": [1, 2]}, "")
        self._credential = answer["credential"]
        await self.register()

    async def register(self) -> None:
        """Say who is here, with all that is here."""
        self.is_silent = False
        self._registrations += 1
        size = {"cpu_millis": self.cores * 1000, "memory_bytes": 64 * GIB, "disk_bytes": 100 * GIB}
        message = {
            "boot": "boot",
            "agent": f"agent of {self.name}",
            "version": "1",
            "driver": "fake",
            "capabilities": _CAN,
            "size": size,
            "vms": list(self._told.values()),
            "sequence": self._registrations,
            "protocols": [1, 2],
        }
        self._epoch = (await self._send("register", message, self._credential))["epoch"]
        self._sequence = 0

    @property
    def running(self) -> int:
        """Return the millis of all that runs, is paused or lands here."""
        return sum(int(1000 * self.cores_of(vm)) for vm in self._told)

    def cores_of(self, vm: str) -> float:
        """Return what a VM takes here."""
        is_alive = self._told.get(vm, {}).get("state") in ("running", "paused", "landing")
        return self.here[vm]["cpu_millis"] / 1000 if is_alive else 0

    async def obey(self) -> int:
        """Do as ordered and report it; return how much was new."""
        if self.is_silent:
            return 0
        path, headers = f"/agent/v1/orders?from=0&epoch={self._epoch}", {"Authorization": f"Bearer {self._credential}"}
        answer = await self._house.client.get(path, headers=headers)
        assert answer.status_code in (200, 204), answer.text
        orders = answer.json()["orders"] if answer.status_code == 200 else []
        orders.sort(key=lambda one: _EASE[one["power"]])
        news = [report for one in orders if one["power"] != "absent" and (report := self._done(one)) is not None]
        gone = [one for one in orders if one["power"] == "absent" and not news]
        for one in gone:
            self.here.pop(one["vm"], None)
            self._told.pop(one["vm"], None)
        if not gone and not news:
            return 0
        self._sequence += 1
        departed = [{"vm": one["vm"], "generation": one["generation"]} for one in gone]
        message = {
            "boot": "boot",
            "agent": f"agent of {self.name}",
            "epoch": self._epoch,
            "sequence": self._sequence,
            "vms": news,
            "gone": [one["vm"] for one in gone],
            "departed": departed,
        }
        await self._send("report", message, self._credential)
        return len(gone) + len(news)

    def _done(self, order: Json) -> Json | None:
        """Carry out one order; return the report where that is news."""
        vm = order["vm"]
        report = {
            "vm": vm,
            "state": self._state(order),
            "generation": order["generation"],
            "restarts": order.get("restarts", 0),
        }
        if report["state"] == "landing":
            report |= {"landing_address": f"{self.name}:1", "landing_secret": "s"}
            report["generation"] = 0
        self.here[vm] = order
        if self._told.get(vm) == report:
            return None
        self._told[vm] = report
        self.peak = max(self.peak, self.running)
        return report

    def _state(self, order: Json) -> str:
        vm, migration = order["vm"], order.get("migration")
        if migration is None:
            self._on_the_way.discard(vm)  # it has arrived, or stays
            return str(order["power"])
        if migration["is_source"]:
            self._on_the_way.add(vm)
            return "left"
        if vm in self._on_the_way or self._told.get(vm, {}).get("state") == "running":
            self._on_the_way.discard(vm)
            return "running"
        return "landing"

    async def _send(self, what: str, message: Json, credential: str) -> Json:
        headers = {"Authorization": f"Bearer {credential}"}
        answer = await self._house.client.post(f"/agent/v1/{what}", json=message, headers=headers)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found
