"""The leader's duties as they run by themselves, and the fencing command on its own."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import msgspec

from hostler.control.fleet.fencing import run_fence_command
from hostler.control.fleet.times import times_for
from hostler.control.store import hosts
from hostler.control.vms.state import state_of
from tests.control.fleet.scene import SETTINGS, scene, spec
from tests.wait import until

QUICK = msgspec.structs.replace(times_for(SETTINGS), look_s=0.02)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def fenced_by(command: tuple[str, ...], *, timeout_s: float = 30.0) -> str:
    return asyncio.run(run_fence_command(command, host="north", identity="h1", timeout_s=timeout_s))


def test_a_command_is_proof_only_when_it_exits_with_nothing(tmp_path):
    assert fenced_by((script(tmp_path / "good", 'test "$HOSTLER_HOST $HOSTLER_HOST_ID" = "north h1"'),)) == ""
    assert "exited with 3" in fenced_by((script(tmp_path / "bad", "exit 3"),))
    assert "exited with" in fenced_by((script(tmp_path / "killed", "kill -9 $$"),))
    assert "cannot be run" in fenced_by((str(tmp_path / "nothing"),))


def test_a_command_that_hangs_is_ended_and_is_no_proof(tmp_path):
    command = script(tmp_path / "hangs", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    timeout_s, began = 0.25, ""
    while not began:  # a busy machine may need longer to begin with it
        timeout_s *= 2
        assert "took longer" in fenced_by((command,), timeout_s=timeout_s)
        began = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
    assert not is_alive(tmp_path / "pid")


def test_a_command_gets_none_of_our_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@host/db")
    assert fenced_by((script(tmp_path / "env", f"env > {tmp_path}/seen"),)) == ""
    assert "secret" not in (tmp_path / "seen").read_text()


def test_duties_run_by_themselves_until_told_to_stop(url):
    async def story() -> None:
        async with scene(url, times=QUICK) as world:
            north = await world.join("north")
            vm = await world.create_running()
            stopping = asyncio.Event()
            running = asyncio.ensure_future(world.leader.duties.run(stopping))
            north.wire.is_cut = True

            async def is_silent() -> bool:
                world.clock.jump(world.settings.silent_after_s / 4)
                jumped = world.clock.steady()
                await until(lambda: world.leader.duties._looked >= jumped)
                return (await world.row("north")).state == "silent"

            await until(is_silent)
            assert state_of(await world.vm(vm)) == "unknown"
            stopping.set()
            await running

    asyncio.run(story())


def test_a_fencing_that_is_under_way_ends_with_the_service(url, tmp_path):
    command = script(tmp_path / "hangs", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(command,))

    async def story() -> None:
        async with scene(url, settings=settings, times=QUICK) as world:
            north = await world.join("north")
            vm = await world.create_running(spec(when_lost="restart"))
            await world.join("south")
            await world.pass_silently(north)
            stopping = asyncio.Event()
            running = asyncio.ensure_future(world.leader.duties.run(stopping))
            await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
            stopping.set()
            await running
            assert not is_alive(tmp_path / "pid")
            assert state_of(await world.vm(vm)) == "unknown"

    asyncio.run(story())


def test_whoever_does_not_lead_does_nothing(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await world.duties()
            north.wire.is_cut = True
            replica = world.leader
            held, replica.books.leadership.held = replica.books.leadership.held, None
            world.clock.jump(1000.0)
            await replica.duties.look()
            assert (await world.row("north")).state == "ready"
            replica.books.leadership.held = held

    asyncio.run(story())


def test_a_vm_that_was_placed_on_a_host_just_when_it_died_is_taken_back(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            await north.stop()

            def die(connection) -> None:  # the bind was decided before, and written after the burial
                row = hosts.get(connection, north.id)
                hosts.save(connection, msgspec.structs.replace(row, state="fenced"))

            await world.database.write(die)
            await world.duties()

            async def is_free() -> bool:
                return (await world.vm(vm)).home is None

            await until(is_free)

    asyncio.run(story())


def is_alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
