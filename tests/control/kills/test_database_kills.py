"""kill -9 of PostgreSQL at random moments under load: the service lives on, and nothing that was answered is lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.control.kills.consistency_checks import Found
from tests.control.kills.story import rounds, run_story
from tests.control.postgres import PostgresServer
from tests.control.storms.hosts import fleet, size_of
from tests.control.storms.service import CALM, ServiceProcess

pytestmark = pytest.mark.early

HOSTS, CPU, MOST = 6, 8, 24
NAMES = [f"host-{number}" for number in range(HOSTS)]
SIZE = size_of(CPU)


async def deaths(server: PostgresServer, services: list[ServiceProcess], count: int, seed: int) -> None:
    async def kill(number: int, dice: random.Random) -> None:
        server.crash()
        await asyncio.sleep(0.3 * dice.random())
        server.start()
        for service in services:
            await service.ready()

    for service in services:
        await service.start()
    async with fleet(services, NAMES, SIZE, seed=seed) as hosts:

        def found() -> Found:
            return {host.name: host.driver.vms for host in hosts}

        await rounds(services, found, kill, count=count, seed=seed, most=MOST, size=SIZE)


def play(folder: Path, server: PostgresServer, url: str, count: int, seed: int, replicas: int) -> None:
    services = [ServiceProcess(folder, url, name=f"replica-{number}", options=CALM) for number in range(replicas)]
    run_story(deaths(server, services, count, seed), services)


def test_ten_deaths_of_postgresql(tmp_path: Path, postgres: PostgresServer, postgres_url: str):
    play(tmp_path, postgres, postgres_url, 10, seed=11, replicas=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("seed", "replicas"), [(12, 1), (13, 2)])
def test_a_hundred_deaths_of_postgresql(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, seed: int, replicas: int
):
    play(tmp_path, postgres, postgres_url, 100, seed, replicas)
