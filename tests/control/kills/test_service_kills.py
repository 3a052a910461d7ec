"""kill -9 of the service at random moments under load, on both databases, and of the leader of two replicas."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.control.kills.consistency_checks import Found
from tests.control.kills.story import rounds, run_story
from tests.control.storms.hosts import fleet, size_of
from tests.control.storms.service import CALM, ServiceProcess

pytestmark = pytest.mark.early

HOSTS, CPU, MOST = 6, 8, 24
NAMES = [f"host-{number}" for number in range(HOSTS)]
SIZE = size_of(CPU)


async def deaths_of_one(service: ServiceProcess, count: int, seed: int) -> None:
    """Kill it so often; once for ten deaths it may end in good order besides, and later ones begin at a checkpoint."""
    killed = 0

    async def kill(number: int, dice: random.Random) -> None:
        nonlocal killed
        if number % 11 == 4:
            service.stop()
        else:
            service.kill()
            killed += 1
        await service.start()

    await service.start()
    async with fleet([service], NAMES, SIZE, seed=seed) as hosts:

        def found() -> Found:
            return {host.name: host.driver.vms for host in hosts}

        await rounds([service], found, kill, count=count + count // 10, seed=seed, most=MOST, size=SIZE)
    assert killed == count


def play(folder: Path, url: str, count: int, seed: int) -> None:
    service = ServiceProcess(folder, url, options=CALM)
    run_story(deaths_of_one(service, count, seed), [service])


def test_ten_deaths_of_a_service_on_a_file(tmp_path: Path, sqlite_url: str):
    play(tmp_path, sqlite_url, 10, seed=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2, 3])
def test_a_hundred_deaths_of_a_service_on_a_file(tmp_path: Path, sqlite_url: str, seed: int):
    play(tmp_path, sqlite_url, 100, seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_deaths_of_a_service_on_postgresql(tmp_path: Path, postgres_url: str):
    play(tmp_path, postgres_url, 50, seed=4)


async def deaths_of_leaders(services: list[ServiceProcess], count: int, seed: int, took: list[float]) -> None:
    async def kill(number: int, dice: random.Random) -> None:
        leader, other = services if (await services[0].ready())["is_leader"] else services[::-1]
        began = time.monotonic()
        leader.kill()
        await other.ready(leads=True)
        took.append(time.monotonic() - began)
        await leader.start()

    for service in services:
        await service.start()
    await services[0].ready(leads=True)
    async with fleet(services, NAMES, SIZE, seed=seed) as hosts:

        def found() -> Found:
            return {host.name: host.driver.vms for host in hosts}

        await rounds(services, found, kill, count=count, seed=seed, most=MOST, size=SIZE)


def play_leaders(folder: Path, url: str, count: int, seed: int) -> None:
    took: list[float] = []
    services = [ServiceProcess(folder, url, name=name, options=CALM) for name in ("first", "second")]
    run_story(deaths_of_leaders(services, count, seed, took), services)
    print("takeovers after", ", ".join(f"{one:.1f} s" for one in took))
    assert len(took) == count


def test_another_replica_takes_over_when_the_leader_dies(tmp_path: Path, postgres_url: str):
    play_leaders(tmp_path, postgres_url, 2, seed=5)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_thirty_takeovers(tmp_path: Path, postgres_url: str):
    play_leaders(tmp_path, postgres_url, 30, seed=6)


def test_a_service_that_ends_in_good_order_is_as_its_twin(tmp_path: Path, sqlite_url: str):
    async def story() -> None:
        service.exec()
        await service.ready(leads=True)  # who leads saves where it is

    service = ServiceProcess(tmp_path, sqlite_url, options=CALM)
    run_story(story(), [service])
