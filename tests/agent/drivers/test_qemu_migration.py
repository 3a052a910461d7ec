"""Live migration of real VMs: encrypted, repeatable, and never running twice, whichever side dies at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from hostler.agent.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.monitor import ask
from tests.agent.drivers import qemu_sender
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import CHATTY, ROOT, in_qemu_setup
from tests.async_tests import run_with
from tests.wait import GIVE_UP_S, until


def folder_of(setup, host, vm="a"):
    return VmFolder(setup.folder / host / "vms" / vm)


async def is_running(setup, host):
    """Ask QEMU itself whether the processors of a VM run; the driver might be wrong."""
    folder = folder_of(setup, host)
    try:
        return (await ask(folder.qmp, "a", "query-status"))["running"]
    except DriverError:
        return False


class LandingWire:
    """A way to a landing that leads through us: we hear all of it, and later calls wait until the gate is open."""

    def __init__(self, landing, *, is_open=True):
        self.landing = landing
        self.heard = bytearray()
        self.gate = asyncio.Event()
        self.calls = 0
        self.is_stuck = False
        self.holds_from = 0  # what comes after so many bytes is held; 0: nothing is
        if is_open:
            self.gate.set()

    async def carry(self, reader, writer):
        self.calls += 1
        downstream = None
        try:
            if self.calls > 1:
                await self.gate.wait()
            upstream, downstream = await asyncio.open_connection(*self.landing.address.split(":"))
            with suppress(ConnectionError):
                await asyncio.gather(self._copy(reader, downstream), self._copy(upstream, writer))
        finally:
            writer.close()
            if downstream is not None:
                downstream.close()

    async def _copy(self, reader, writer):
        try:
            while piece := await reader.read(2**16):
                self.heard.extend(piece)
                while self.is_stuck or 0 < self.holds_from < len(self.heard):
                    await asyncio.sleep(0.01)
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def wired(landing, *, is_open=True):
    """Yield a wire and the landing by way of it; at the end the wire is cut."""
    wire, tasks, writers = LandingWire(landing, is_open=is_open), set(), []

    def connected(reader, writer):
        writers.append(writer)
        tasks.add(asyncio.create_task(wire.carry(reader, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield wire, Landing(address=address, secret=landing.secret)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in writers:  # also where carrying had not begun, or something waits that nobody will read
                writer.transport.abort()


def idle(setup, **changes):
    """A VM that has nothing to boot from and little memory in use: quick to copy."""
    return setup.order("a", **{"kernel": "", "initrd": "", "kernel_arguments": "", **changes})


@run_with(in_qemu_setup)
async def test_nobody_on_the_way_reads_the_memory_of_a_vm(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        order = setup.order("a", kernel_arguments=f"{CHATTY} password=swordfish")
        await one.create(order)
        await one.start("a")
        await setup.said("password=swordfish", "a")
        async with wired(await two.await_landing(order)) as (wire, landing):
            await one.send("a", landing)
        assert await power_of(two, "a") == "running"
        assert len(wire.heard) > 2**20
        assert b"swordfish" not in wire.heard
        assert b"QEVM" not in wire.heard, "what QEMU's streams begin with"


@run_with(in_qemu_setup)
async def test_broken_migration_leaves_vm_running_and_landing_ready(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(setup.order("a"))
        await one.start("a")
        landing = await two.await_landing(setup.order("a"))
        async with wired(landing) as (wire, tapped):
            sending = asyncio.create_task(one.send("a", tapped))
            while len(wire.heard) < 2**16:
                await asyncio.sleep(0.001)
            wire.is_stuck = True
        with pytest.raises(DriverError):
            await sending
        assert await is_running(setup, "one")
        assert not await is_running(setup, "two")
        assert await power_of(one, "a") == "running"
        assert await power_of(two, "a") == "landing"
        await one.send("a", landing)
        assert (await is_running(setup, "one"), await is_running(setup, "two")) == (False, True)


@run_with(in_qemu_setup)
async def test_a_sending_that_is_given_up_is_taken_back(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(setup.order("a"))
        await one.start("a")
        landing = await two.await_landing(setup.order("a"))
        async with wired(landing) as (wire, tapped):
            sending = asyncio.create_task(one.send("a", tapped))
            while len(wire.heard) < 2**16:
                await asyncio.sleep(0.001)
            wire.is_stuck = True
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            state = await ask(folder_of(setup, "one").qmp, "a", "query-migrate")
            assert state["status"] in ("cancelled", "failed")
            assert await is_running(setup, "one")
            assert await power_of(one, "a") == "running"


@run_with(in_qemu_setup)
async def test_what_does_not_run_is_not_sent(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        landing = await two.await_landing(setup.order("a"))
        await one.create(setup.order("a"))
        with pytest.raises(PermanentError, match="does not run"):
            await one.send("a", landing)
        await one.start("a")
        await one.pause("a")
        with pytest.raises(PermanentError, match="is paused"):
            await one.send("a", landing)
        with pytest.raises(PermanentError, match="waits to land"):
            await two.start("a")
        with pytest.raises(PermanentError):
            await two.resume("a")
        with pytest.raises(PermanentError):
            await one.await_landing(setup.order("a"))


@run_with(in_qemu_setup)
async def test_a_landing_survives_its_agent_with_address_and_secret(setup, /):
    async with opened(setup, "two") as two:
        landing = await two.await_landing(setup.order("a"))
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        assert await power_of(two, "a") == "landing"
        assert await two.await_landing(setup.order("a")) == landing
        await one.create(setup.order("a"))
        await one.start("a")
        await one.send("a", landing)
        await one.send("a", landing)
        assert await power_of(two, "a") == "running"


@run_with(in_qemu_setup)
async def test_stopped_landings_accept_nothing_until_prepared_again(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        landing = await two.await_landing(idle(setup))
        await two.stop("a", grace_s=0)
        with pytest.raises(DriverError):
            await one.send("a", landing)
        assert await is_running(setup, "one")
        again = await two.await_landing(idle(setup))
        assert again.secret != landing.secret
        await one.send("a", again)
        assert await power_of(two, "a") == "running"


@run_with(in_qemu_setup)
async def test_a_vm_that_came_may_go_back(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        for here, there in ((one, two), (two, one)):
            await here.send("a", await there.await_landing(idle(setup)))
            assert await power_of(there, "a") == "running"
            await here.delete("a")
        await one.stop("a", grace_s=0)
        await one.start("a")
        assert await power_of(one, "a") == "running"


@run_with(in_qemu_setup)
async def test_a_vm_that_left_is_not_resumed_and_its_remains_hold_no_memory(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(setup.order("a"))
        await one.start("a")
        await one.send("a", await two.await_landing(setup.order("a")))
        with pytest.raises(PermanentError):
            await one.resume("a")
        await one.stop("a", grace_s=0)
        assert await power_of(one, "a") == "left"
        assert not await is_running(setup, "one")
        await two.delete("a")
        await one.start("a")
        assert await power_of(one, "a") == "running", "a newer order may say that it belongs here after all"


@run_with(in_qemu_setup)
async def test_copied_but_untaken_vm_continues_at_its_source(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        async with wired(await two.await_landing(idle(setup)), is_open=False) as (_, landing):
            sender = await start_sender(setup, landing)
            await reach(setup, "left")
            sender.kill()
            await sender.wait()
        process = folder_of(setup, "one").read_process()
        assert await power_of(one, "a") == "left"
        await two.delete("a")
        await one.start("a")
        assert await is_running(setup, "one")
        assert folder_of(setup, "one").read_process() == process, "its memory was still there"


@run_with(in_qemu_setup)
async def test_killed_target_obeys_the_last_word_later(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        await one.send("a", await two.await_landing(idle(setup)))
    folder = folder_of(setup, "two")
    await ask(folder.qmp, "a", "stop")
    folder.write(msgspec.structs.replace(folder.read(), is_arriving=True))
    async with opened(setup, "two") as two:
        assert await power_of(two, "a") == "running"
        await two.pause("a")
        assert await power_of(two, "a") == "paused", "it obeys once"


@run_with(in_qemu_setup)
async def test_last_word_is_repeated_until_answered_across_agents(setup, /):
    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        landing = await two.await_landing(idle(setup))
        await one.send("a", landing)
    folder = folder_of(setup, "one")
    folder.write(msgspec.structs.replace(folder.read(), is_taken=False))  # its answer was lost
    async with opened(setup, "one") as one:
        await one.find()
        async with opened(setup, "two") as two:
            await two.find()
            await until(lambda: folder.read().is_taken)
            assert await power_of(two, "a") == "running"


MOMENTS = ["sending", "copying", "copied", "left"]
HELD_FROM = 2**16


@pytest.mark.parametrize("victims", ["source", "target", "both"])
@pytest.mark.parametrize("moment", MOMENTS)
@run_with(in_qemu_setup)
async def test_vm_runs_on_one_side_when_a_process_is_killed_during_a_move(setup, /, moment, victims):
    order = await started(setup, moment)
    two = setup.driver("two")
    await two.open()
    async with wired(await two.await_landing(order), is_open=False) as (wire, landing):
        wire.holds_from = HELD_FROM if moment == "copying" else 0
        sender = await start_sender(setup, landing)
        await reach(setup, moment, wire)
        if victims != "target":
            sender.kill()
            await sender.wait()
        if victims != "source":
            await two.close()
            two = setup.driver("two")
            await two.open()
            await two.await_landing(order)
        if moment == "copying":
            assert await migration_of(setup) == "active", "nobody noticed yet"
        wire.holds_from = 0
        wire.gate.set()
        await sender.wait()
        async with opened(setup, "one") as one:
            await settle(setup, one, two, landing)
    await two.close()


@run_with(in_qemu_setup)
async def test_vm_runs_on_when_migration_target_dies_and_can_be_sent_again(setup, /):
    order = await started(setup, "copying")
    async with opened(setup, "two") as two:
        async with wired(await two.await_landing(order)) as (wire, landing):
            wire.holds_from = HELD_FROM
            sender = await start_sender(setup, landing)
            await reach(setup, "copying", wire)
            os.kill(folder_of(setup, "two").read_process().pid, signal.SIGKILL)
            wire.holds_from = 0
            assert await sender.wait() != 0, "who sent it heard that it was not taken"
        async with opened(setup, "one") as one:
            assert await power_of(one, "a") == "running"
            assert (await is_running(setup, "one"), await is_running(setup, "two")) == (True, False)
            await two.delete("a")
            await settle(setup, one, two, await two.await_landing(order))


async def started(setup, moment):
    """Start a VM and return its order; one that is to be met while it is copied has more in it than wires hold."""
    order = setup.order("a", kernel_arguments=CHATTY) if moment == "copying" else idle(setup)
    async with opened(setup, "one") as one:
        await one.create(order)
        await one.start("a")
    if moment == "copying":
        await setup.said("Linux version", "a")
    return order


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
@run_with(in_qemu_setup)
async def test_whenever_the_source_is_killed_the_vm_runs_on_one_side_in_the_end(setup, /, seed):
    chance = random.Random(seed)

    async with opened(setup, "one") as one, opened(setup, "two") as two:
        await one.create(idle(setup))
        await one.start("a")
        landing = await two.await_landing(idle(setup))
        for _ in range(chance.randint(1, 3)):
            sender = await start_sender(setup, landing)
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            if sender.returncode is None:
                sender.kill()
            await sender.wait()
        await settle(setup, one, two, landing)


async def start_sender(setup, landing):
    user = "nobody" if os.getuid() == 0 else ""
    arguments = (str(setup.folder / "one"), str(setup.images), user, "a", landing.address, landing.secret)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", qemu_sender.__name__, *arguments, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )


async def migration_of(setup):
    """Ask QEMU itself how far the copying of a VM is."""
    return (await ask(folder_of(setup, "one").qmp, "a", "query-migrate")).get("status", "")


async def reach(setup, moment, wire=None):
    """Wait for a moment of a migration, as its files and QEMU tell it."""
    folder = folder_of(setup, "one")
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            file = folder.read()
            if moment == "sending" and file.sending is not None:
                return
            if moment == "left" and file.stage == "left":
                return
            if moment == "copied" and await migration_of(setup) == "completed":
                return
            if moment == "copying" and wire is not None and len(wire.heard) > HELD_FROM:
                assert await migration_of(setup) == "active"
                return
            await asyncio.sleep(0.001)


async def settle(setup, one, two, landing):
    """Do what agents do: look, and send again what still runs at its source."""
    both = 0
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            running = await asyncio.gather(is_running(setup, "one"), is_running(setup, "two"))
            both += all(running)
            powers = (await power_of(one, "a"), await power_of(two, "a"))
            if powers == ("left", "running"):
                break
            if powers == ("running", "landing"):
                try:
                    await one.send("a", landing)
                except DriverError:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)
    assert both == 0, "it ran twice"
    assert (await is_running(setup, "one"), await is_running(setup, "two")) == (False, True)
    await one.delete("a")
    assert await power_of(two, "a") == "running"
