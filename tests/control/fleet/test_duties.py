"""The leader's duties as they run by themselves, and the fencing command on its own."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import msgspec

from hostler.control.fleet.duties import run_fence_command
from hostler.control.fleet.times import times_for
from hostler.control.store.rows import hosts
from hostler.control.vms.state import state_of
from tests.control.fleet.control_plane import SETTINGS, run_control_plane, spec
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


async def test_duties_run_by_themselves_until_told_to_stop(url):
    async with run_control_plane(url, times=QUICK) as control:
        north = await control.join("north")
        vm = await control.create_running()
        stopping = asyncio.Event()
        running = asyncio.ensure_future(control.leader.duties.run(stopping))
        north.wire.is_cut = True

        async def is_silent() -> bool:
            control.clock.jump(control.settings.silent_after_s / 4)
            jumped = control.clock.steady()
            await until(lambda: control.leader.duties._looked >= jumped)
            return (await control.row("north")).state == "silent"

        await until(is_silent)
        assert state_of(await control.vm(vm)) == "unknown"
        stopping.set()
        await running


async def test_a_fencing_that_is_under_way_ends_with_the_service(url, tmp_path):
    command = script(tmp_path / "hangs", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    settings = msgspec.structs.replace(SETTINGS, fence_command=(command,))

    async with run_control_plane(url, settings=settings, times=QUICK) as control:
        north = await control.join("north")
        vm = await control.create_running(spec(when_lost="restart"))
        await control.join("south")
        await control.pass_silently(north)
        stopping = asyncio.Event()
        running = asyncio.ensure_future(control.leader.duties.run(stopping))
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
        stopping.set()
        await running
        assert not is_alive(tmp_path / "pid")
        assert state_of(await control.vm(vm)) == "unknown"


async def test_replica_that_does_not_lead_does_nothing(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await control.duties()
        north.wire.is_cut = True
        replica = control.leader
        held, replica.books.leadership.held = replica.books.leadership.held, None
        control.clock.jump(1000.0)
        await replica.duties.look()
        assert (await control.row("north")).state == "ready"
        replica.books.leadership.held = held


async def test_a_vm_that_was_placed_on_a_host_just_when_it_died_is_taken_back(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await north.stop()

        def die(connection) -> None:  # the bind was decided before, and written after the burial
            row = hosts.get(connection, north.id)
            hosts.save(connection, msgspec.structs.replace(row, state="fenced"))

        await control.database.write(die)
        await control.duties()

        async def is_free() -> bool:
            return (await control.vm(vm)).home is None

        await until(is_free)


def is_alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
