"""What /metrics says after something happened."""

from __future__ import annotations

import pytest

from hostler.agent.messages import Report, Tries, VmReport
from hostler.control.store import Connection
from hostler.errors import HostlerError
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send


async def test_placements_are_timed_by_the_replica_that_decides() -> None:
    async with open_service() as service:
        await service.add_hosts("north")
        for name in ("one", "two"):
            assert (await service.create(name)).status_code == 202
        await service.settle()
        text = (await service.ask("GET", "/metrics")).text
        assert "hostler_control_placement_duration_seconds_count 2.0" in text
        assert "hostler_control_database_write_seconds_max 0.0" in text, "nobody probed here"
        [line] = [one for one in text.splitlines() if one.startswith("hostler_control_engine_seconds_max ")]
        assert float(line.split()[1]) > 0


async def test_writes_that_fail_are_counted_by_cause() -> None:
    def misspelt(connection: Connection) -> None:
        connection.exec_driver_sql("UPDATE nothing SET nowhere = 1")

    async with open_service() as service:
        for _ in range(2):
            with pytest.raises(HostlerError):
                await service.database.write(misspelt)
        lines = (await service.ask("GET", "/metrics")).text.splitlines()
        start = "hostler_control_database_failures_total{cause="
        found = [line.removeprefix(start) for line in lines if line.startswith(start)]
        assert found == [
            '"database_damaged"} 0.0',
            '"database_full"} 0.0',
            '"database_overloaded"} 0.0',
            '"database_unavailable"} 2.0',
            '"internal"} 0.0',
            '"log_went_back"} 0.0',
            '"outcome_unknown"} 0.0',
        ], "each is there before it first happens, so that rates see that too"


async def tried(service: InProcessService) -> dict[str, int]:
    """Return what agents tried, by outcome."""
    lines = (await service.ask("GET", "/metrics")).text.splitlines()
    start = 'hostler_control_agent_tries_total{outcome="'
    found = [line.removeprefix(start).split('"} ') for line in lines if line.startswith(start)]
    return {outcome: int(float(count)) for outcome, count in found}


async def test_agent_tries_are_counted_by_outcome_without_rejected_ones() -> None:
    async with open_service() as service:
        nothing = {"done": 0, "transient": 0, "permanent": 0, "blocked": 0}
        assert await tried(service) == nothing, "each is there before its first try, so that rates see that too"
        me = await joined(service, "node-1")
        epoch = (await send(service, me.credential, "/agent/v1/register", REGISTER)).json()["epoch"]

        async def report(sequence: int, **more: object) -> int:
            message = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=sequence, **more)
            return (await send(service, me.credential, "/agent/v1/report", message)).status_code

        assert await report(1, tries=Tries(done=2, blocked=7)) == 200
        assert await report(2) == 200
        news = (VmReport(vm="a", state="running"),)
        assert await report(3, tries=Tries(transient=1, permanent=3, blocked=1), vms=news) == 200
        assert await report(3, tries=Tries(blocked=100)) == 409, "a replay"
        assert await report(4, tries=Tries(blocked=-100)) == 422
        assert await tried(service) == {"done": 2, "transient": 1, "permanent": 3, "blocked": 8}
