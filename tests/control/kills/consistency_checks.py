"""What must hold after every death: no VM is lost, doubled or leaked, and decisions go on as if nothing had been."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.agent.drivers.fake import FakeVm
from hostler.agent.messages import HostSize
from hostler.control.schemas import Plan, PlanAsked, PlanVm
from hostler.control.services.explanations import what_ifs
from hostler.control.store.history.log import StoredEntry
from hostler.control.vms.guests import vm_of_uid
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.model import CPU, MEMORY, STORAGE
from hostler.model.resources import parse_resource
from tests.control.kills.twins import LogTwin
from tests.control.storms.clients import Owned, ServiceClients
from tests.control.storms.database_audit import DatabaseReader, audit, twin_of

__all__ = ["Found", "check_books", "check_decisions", "check_vms"]

Found = Mapping[str, Mapping[str, FakeVm]]  # host to its VMs, as its driver has them

_ALIVE = ("running", "paused")
_PLANS = 20
_DECISIONS = 100
_AT_ONCE = 10


def check_vms(people: ServiceClients, told: list[dict[str, Any]], found: Found) -> None:
    """Compare what was promised, what the service tells, and what is on the hosts. Everything must be at rest."""
    by_id = {vm["id"]: vm for vm in told}
    promised = {one.id: one for one in people.owned if one.is_alive}
    assert all(one.wish is None for one in people.owned)
    assert set(by_id) == set(promised), "lost, or made of nothing"
    names = Counter(vm["name"] for vm in told)
    assert not [name for name, count in names.items() if count > 1], "a name is there twice"
    there = Counter(vm for vms in found.values() for vm in vms)
    assert not [vm for vm, count in there.items() if count > 1], "a VM is on two hosts"
    assert set(there) <= set(by_id), "a host has a VM that nobody knows"
    for identity, vm in by_id.items():
        _check_vm(promised[identity], vm, found.get(vm["host"] or "", {}).get(identity))


def _check_vm(promised: Owned, vm: dict[str, Any], here: FakeVm | None) -> None:
    """Compare one VM with what its owner asked for and with what its host has of it."""
    assert (vm["power"], str(vm["spec"]["cpu"])) == (promised.power, str(promised.cpu)), vm
    if vm["state"] in (*_ALIVE, "resizing"):
        assert here is not None, vm
        assert here.power == vm["power"], (vm, here)
        has, kept = here.order, _kept(vm)
        has_now = (has.cpu_millis, has.memory_bytes, sum(disk.size_bytes for disk in has.disks))
        # While it waits for room to grow it may still be shrinking: then more is kept than it has.
        is_right = has_now <= kept if vm["state"] == "resizing" else has_now == kept
        assert is_right, (vm, here)
    else:
        assert vm["state"] in ("stopped", "pending"), vm
        assert here is None or here.power not in _ALIVE, (vm, here)


def _kept(vm: dict[str, Any]) -> tuple[int, int, int]:
    """Return what its host keeps for a VM, by what the service tells of it: cpu, memory and disk."""
    booked = vm["booked"] or {"cpu": 0, "memory": 0}
    disks = vm["spec"].get("disks", ()) if vm["host_id"] else ()
    return (
        parse_resource(CPU, booked["cpu"]),
        parse_resource(MEMORY, booked["memory"]),
        sum(parse_resource(STORAGE, disk["size"]) for disk in disks),
    )


def check_books(reader: DatabaseReader, told: list[dict[str, Any]], size: HostSize) -> list[StoredEntry]:
    """Compare rows and log with what the service tells; return the log."""
    homes = {vm: host for vm, host, role in reader.rows("SELECT vm, host, role FROM placements") if role == "home"}
    assert homes == {vm["id"]: vm["host_id"] for vm in told if vm["host_id"]}
    use = reader.use()
    for host in {vm["host_id"] for vm in told if vm["host_id"]} | set(use):
        kept = [_kept(vm) for vm in told if vm["host_id"] == host]
        assert use[host] == tuple(map(sum, zip(*kept, strict=True))), (host, use[host], kept)
        limits = (size.cpu_millis, size.memory_bytes, size.disk_bytes)
        assert all(amount <= limit for amount, limit in zip(use[host], limits, strict=True)), (host, use[host])
    entries = reader.entries()
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert audit(entries) > 0
    return entries


async def check_decisions(people: ServiceClients, reader: DatabaseReader, seed: int) -> None:
    """Let the service decide on, what if and for real, and compare with a twin that never stopped."""
    dice = random.Random(seed)
    await _check_plans(people, reader, [_spec(dice) for _ in range(_PLANS)])
    await _make_room(people, dice)
    await _check_placements(people, reader, [_spec(dice) for _ in range(_DECISIONS)], dice)


async def _make_room(people: ServiceClients, dice: random.Random) -> None:
    """Let half of the VMs go, with their disks, so that most of those that come find a place."""
    alive = [one for one in people.owned if one.is_alive]
    for one in dice.sample(alive, len(alive) // 2):
        await people.change(one, "delete")
    await people.resolve()


def _spec(dice: random.Random) -> VmSpec:
    """Return what a user may request: most fits somewhere, some only after an eviction, some nowhere."""
    largest = dice.choice([2500, 2500, 2500, 9000])
    disks = [DiskSpec(size=f"{dice.randrange(1, 400)}Gi")] if dice.random() < 0.3 else []
    return VmSpec(
        disks=disks,
        cpu=f"{dice.randrange(100, largest)}m",
        memory=f"{dice.randrange(64, largest)}Mi",
        priority=dice.choice([0, 0, 0, 3]),
        strategy=dice.choice(["", "", "best_fit", "round_robin", "random"]),
    )


async def _check_plans(people: ServiceClients, reader: DatabaseReader, specs: Sequence[VmSpec]) -> None:
    answers = []
    for number, spec in enumerate(specs):
        asked = PlanAsked(vms=[PlanVm(name=f"asked-{number}", spec=spec, count=1 + number % 3)])
        answer = await people.client().post("/v1/plan", json=msgspec.to_builtins(asked))
        assert answer.status_code == 200, answer.text
        answers.append((asked, msgspec.json.decode(answer.content, type=Plan)))
    entries = reader.entries()
    twin, upto = None, -1
    for asked, plan in answers:
        if twin is None or plan.seq != upto:
            twin, upto = twin_of(entries, plan.seq), plan.seq
        expected = what_ifs.plan(twin.engine.fork(), asked, what_ifs.facts_of(asked), lambda project: True)
        assert plan.placements == expected, asked


async def _check_placements(
    people: ServiceClients, reader: DatabaseReader, specs: Sequence[VmSpec], dice: random.Random
) -> None:
    """Create VMs and let some go again, all through the service; each must be where a twin puts it."""
    twin = LogTwin()
    twin.read(reader.entries())
    before = len(twin.decided)
    mine: set[str] = set()
    alive: set[str] = set()

    def judge(told: list[dict[str, Any]]) -> None:
        twin.read(reader.entries())
        last = {vm_of_uid(one.uid): one for one in twin.decided if one.host}
        moves = {(vm_of_uid(one.uid), one.host): one.seq for one in twin.moves}
        for vm in told:
            if vm["id"] in mine and vm["host"]:
                decided = last[vm["id"]]
                has_moved = moves.get((vm["id"], vm["host"]), 0) > decided.seq
                assert vm["host"] == decided.host or has_moved, vm

    for first in range(0, len(specs), _AT_ONCE):
        asked = [(f"next-{first + at}", spec) for at, spec in enumerate(specs[first : first + _AT_ONCE])]
        alive |= set(await asyncio.gather(*(_create(people, name, spec) for name, spec in asked)))
        mine |= alive
        await people.judged(judge)
        going = dice.sample(sorted(alive), len(alive) * 2 // 3)
        await asyncio.gather(*(_delete(people, vm) for vm in going))
        alive -= set(going)
    await people.judged(judge)
    decided = [one for one in twin.decided[before:] if vm_of_uid(one.uid) in mine]
    assert {vm_of_uid(one.uid) for one in decided} == mine
    assert len(mine) == _DECISIONS
    assert len({one.uid for one in decided if one.host}) > _DECISIONS / 2, "hardly any of them was placed"


async def _create(people: ServiceClients, name: str, spec: VmSpec) -> str:
    body = {"name": name, "spec": msgspec.to_builtins(spec)}
    answer = await people.client().post("/v1/vms", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["vm"]["id"])


async def _delete(people: ServiceClients, vm: str) -> None:
    answer = await people.client().delete(f"/v1/vms/{vm}")
    assert answer.status_code in (200, 202), answer.text
