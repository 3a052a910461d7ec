import asyncio

import pytest

from hostler.kube.api.access import read_access
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import run_simulation
from tests.kube.conftest import control_plane  # noqa: F401 - a fixture
from tests.kube.memory.contract import CONTRACT, run_part


@pytest.mark.parametrize("part", CONTRACT, ids=lambda part: part.__name__)
def test_the_server_in_memory_keeps_the_contract(part):
    for seed in range(3):
        run_simulation(lambda: run_part(part, ApiServer().transport()), seed)


def test_the_real_server_keeps_the_contract(control_plane):  # noqa: F811
    """All parts at once, each in its own namespace: they mostly wait."""

    async def main():
        transport = AiohttpTransport(read_access(control_plane.kubeconfig()))
        try:
            return await asyncio.gather(*(run_part(part, transport) for part in CONTRACT), return_exceptions=True)
        finally:
            await transport.close()

    results = dict(zip((part.__name__ for part in CONTRACT), asyncio.run(main()), strict=True))
    failures = [error for error in results.values() if error is not None]
    if failures:
        raise ExceptionGroup("parts that the real server does not keep", failures)
