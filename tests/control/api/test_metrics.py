"""What /metrics says after something happened."""

from __future__ import annotations

import asyncio

from tests.control.api.house import open_house


def test_placements_are_timed_by_the_replica_that_decides() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("north")
            for name in ("one", "two"):
                assert (await house.create(name)).status_code == 202
            await house.settle()
            text = (await house.ask("GET", "/metrics")).text
            assert "hostler_control_placement_duration_seconds_count 2.0" in text
            assert "hostler_control_database_write_seconds_max 0.0" in text, "nobody probed here"
            [line] = [one for one in text.splitlines() if one.startswith("hostler_control_engine_seconds_max ")]
            assert float(line.split()[1]) > 0

    asyncio.run(scenario())
