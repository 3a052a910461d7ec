"""Live migration of real VMs: encrypted, repeatable, and never running twice, whoever dies at whatever moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from hostler.agent.drivers.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.qemu_folder import VmFolder
from hostler.agent.drivers.qemu_monitor import ask
from tests.agent.drivers import qemu_sender
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_lab import CHATTY, ROOT, in_a_lab
from tests.wait import GIVE_UP_S, until


def folder_of(lab, host, vm="a"):
    return VmFolder(lab.folder / host / "vms" / vm)


async def is_running(lab, host):
    """Ask QEMU itself whether the processors of a VM run; the driver might be wrong."""
    folder = folder_of(lab, host)
    try:
        return (await ask(folder.qmp, "a", "query-status"))["running"]
    except DriverError:
        return False


class Wire:
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
    wire, tasks, writers = Wire(landing, is_open=is_open), set(), []

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


def idle(lab, **changes):
    """A VM that has nothing to boot from and little memory in use: quick to copy."""
    return lab.order("a", **{"kernel": "", "initrd": "", "kernel_arguments": "", **changes})


def test_nobody_on_the_way_reads_the_memory_of_a_vm():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            order = lab.order("a", kernel_arguments=f"{CHATTY} password=swordfish")
            await one.create(order)
            await one.start("a")
            await lab.said("password=swordfish", "a")
            async with wired(await two.await_landing(order)) as (wire, landing):
                await one.send("a", landing)
            assert await power_of(two, "a") == "running"
            assert len(wire.heard) > 2**20
            assert b"swordfish" not in wire.heard
            assert b"QEVM" not in wire.heard, "what QEMU's streams begin with"

    in_a_lab(scenario)


def test_a_connection_that_breaks_leaves_the_vm_running_and_the_landing_ready():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(lab.order("a"))
            await one.start("a")
            landing = await two.await_landing(lab.order("a"))
            async with wired(landing) as (wire, tapped):
                sending = asyncio.create_task(one.send("a", tapped))
                while len(wire.heard) < 2**16:
                    await asyncio.sleep(0.001)
                wire.is_stuck = True
            with pytest.raises(DriverError):
                await sending
            assert await is_running(lab, "one")
            assert not await is_running(lab, "two")
            assert await power_of(one, "a") == "running"
            assert await power_of(two, "a") == "landing"
            await one.send("a", landing)
            assert (await is_running(lab, "one"), await is_running(lab, "two")) == (False, True)

    in_a_lab(scenario)


def test_a_sending_that_is_given_up_is_taken_back():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(lab.order("a"))
            await one.start("a")
            landing = await two.await_landing(lab.order("a"))
            async with wired(landing) as (wire, tapped):
                sending = asyncio.create_task(one.send("a", tapped))
                while len(wire.heard) < 2**16:
                    await asyncio.sleep(0.001)
                wire.is_stuck = True
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
                state = await ask(folder_of(lab, "one").qmp, "a", "query-migrate")
                assert state["status"] in ("cancelled", "failed")
                assert await is_running(lab, "one")
                assert await power_of(one, "a") == "running"

    in_a_lab(scenario)


def test_what_does_not_run_is_not_sent():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            landing = await two.await_landing(lab.order("a"))
            await one.create(lab.order("a"))
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
                await one.await_landing(lab.order("a"))

    in_a_lab(scenario)


def test_a_landing_survives_its_agent_with_address_and_secret():
    async def scenario(lab):
        async with opened(lab, "two") as two:
            landing = await two.await_landing(lab.order("a"))
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            assert await power_of(two, "a") == "landing"
            assert await two.await_landing(lab.order("a")) == landing
            await one.create(lab.order("a"))
            await one.start("a")
            await one.send("a", landing)
            await one.send("a", landing)
            assert await power_of(two, "a") == "running"

    in_a_lab(scenario)


def test_nothing_lands_where_landings_were_stopped_until_one_is_prepared_again():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            landing = await two.await_landing(idle(lab))
            await two.stop("a", grace_s=0)
            with pytest.raises(DriverError):
                await one.send("a", landing)
            assert await is_running(lab, "one")
            again = await two.await_landing(idle(lab))
            assert again.secret != landing.secret
            await one.send("a", again)
            assert await power_of(two, "a") == "running"

    in_a_lab(scenario)


def test_a_vm_that_came_may_go_back():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            for here, there in ((one, two), (two, one)):
                await here.send("a", await there.await_landing(idle(lab)))
                assert await power_of(there, "a") == "running"
                await here.delete("a")
            await one.stop("a", grace_s=0)
            await one.start("a")
            assert await power_of(one, "a") == "running"

    in_a_lab(scenario)


def test_a_vm_that_left_is_not_resumed_and_its_remains_hold_no_memory():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(lab.order("a"))
            await one.start("a")
            await one.send("a", await two.await_landing(lab.order("a")))
            with pytest.raises(PermanentError):
                await one.resume("a")
            await one.stop("a", grace_s=0)
            assert await power_of(one, "a") == "left"
            assert not await is_running(lab, "one")
            await two.delete("a")
            await one.start("a")
            assert await power_of(one, "a") == "running", "a newer order may say that it belongs here after all"

    in_a_lab(scenario)


def test_a_vm_that_was_copied_and_that_nobody_took_goes_on_where_it_was_when_it_is_started():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            async with wired(await two.await_landing(idle(lab)), is_open=False) as (_, landing):
                sender = await start_sender(lab, landing)
                await reach(lab, "left")
                sender.kill()
                await sender.wait()
            process = folder_of(lab, "one").read_process()
            assert await power_of(one, "a") == "left"
            await two.delete("a")
            await one.start("a")
            assert await is_running(lab, "one")
            assert folder_of(lab, "one").read_process() == process, "its memory was still there"

    in_a_lab(scenario)


def test_a_target_that_is_killed_between_hearing_the_last_word_and_obeying_it_obeys_it_later():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            await one.send("a", await two.await_landing(idle(lab)))
        folder = folder_of(lab, "two")
        await ask(folder.qmp, "a", "stop")
        folder.write(msgspec.structs.replace(folder.read(), is_arriving=True))
        async with opened(lab, "two") as two:
            assert await power_of(two, "a") == "running"
            await two.pause("a")
            assert await power_of(two, "a") == "paused", "it obeys once"

    in_a_lab(scenario)


def test_the_last_word_is_repeated_until_it_is_answered_by_agents_that_come_later():
    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            landing = await two.await_landing(idle(lab))
            await one.send("a", landing)
        folder = folder_of(lab, "one")
        folder.write(msgspec.structs.replace(folder.read(), is_taken=False))  # its answer was lost
        async with opened(lab, "one") as one:
            await one.find()
            async with opened(lab, "two") as two:
                await two.find()
                await until(lambda: folder.read().is_taken)
                assert await power_of(two, "a") == "running"

    in_a_lab(scenario)


MOMENTS = ["sending", "copying", "copied", "left"]
HELD_FROM = 2**16


@pytest.mark.parametrize("victims", ["source", "target", "both"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_is_killed_while_a_vm_moves_it_runs_on_one_side_in_the_end(moment, victims):
    async def scenario(lab):
        order = await started(lab, moment)
        two = lab.driver("two")
        await two.open()
        async with wired(await two.await_landing(order), is_open=False) as (wire, landing):
            wire.holds_from = HELD_FROM if moment == "copying" else 0
            sender = await start_sender(lab, landing)
            await reach(lab, moment, wire)
            if victims != "target":
                sender.kill()
                await sender.wait()
            if victims != "source":
                await two.close()
                two = lab.driver("two")
                await two.open()
                await two.await_landing(order)
            if moment == "copying":
                assert await migration_of(lab) == "active", "nobody noticed yet"
            wire.holds_from = 0
            wire.gate.set()
            await sender.wait()
            async with opened(lab, "one") as one:
                await settle(lab, one, two, landing)
        await two.close()

    in_a_lab(scenario)


def test_where_the_target_machine_dies_while_a_vm_is_copied_it_runs_on_and_may_be_sent_again():
    async def scenario(lab):
        order = await started(lab, "copying")
        async with opened(lab, "two") as two:
            async with wired(await two.await_landing(order)) as (wire, landing):
                wire.holds_from = HELD_FROM
                sender = await start_sender(lab, landing)
                await reach(lab, "copying", wire)
                os.kill(folder_of(lab, "two").read_process().pid, signal.SIGKILL)
                wire.holds_from = 0
                assert await sender.wait() != 0, "who sent it heard that it was not taken"
            async with opened(lab, "one") as one:
                assert await power_of(one, "a") == "running"
                assert (await is_running(lab, "one"), await is_running(lab, "two")) == (True, False)
                await two.delete("a")
                await settle(lab, one, two, await two.await_landing(order))

    in_a_lab(scenario)


async def started(lab, moment):
    """Start a VM and return its order; one that is to be met while it is copied has more in it than wires hold."""
    order = lab.order("a", kernel_arguments=CHATTY) if moment == "copying" else idle(lab)
    async with opened(lab, "one") as one:
        await one.create(order)
        await one.start("a")
    if moment == "copying":
        await lab.said("Linux version", "a")
    return order


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_whenever_the_source_is_killed_the_vm_runs_on_one_side_in_the_end(seed):
    chance = random.Random(seed)

    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            await one.create(idle(lab))
            await one.start("a")
            landing = await two.await_landing(idle(lab))
            for _ in range(chance.randint(1, 3)):
                sender = await start_sender(lab, landing)
                await asyncio.sleep(chance.uniform(0.3, 1.5))
                if sender.returncode is None:
                    sender.kill()
                await sender.wait()
            await settle(lab, one, two, landing)

    in_a_lab(scenario)


async def start_sender(lab, landing):
    user = "nobody" if os.getuid() == 0 else ""
    arguments = (str(lab.folder / "one"), str(lab.images), user, "a", landing.address, landing.secret)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", qemu_sender.__name__, *arguments, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )


async def migration_of(lab):
    """Ask QEMU itself how far the copying of a VM is."""
    return (await ask(folder_of(lab, "one").qmp, "a", "query-migrate")).get("status", "")


async def reach(lab, moment, wire=None):
    """Wait for a moment of a migration, as its files and QEMU tell it."""
    folder = folder_of(lab, "one")
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            file = folder.read()
            if moment == "sending" and file.sending is not None:
                return
            if moment == "left" and file.stage == "left":
                return
            if moment == "copied" and await migration_of(lab) == "completed":
                return
            if moment == "copying" and wire is not None and len(wire.heard) > HELD_FROM:
                assert await migration_of(lab) == "active"
                return
            await asyncio.sleep(0.001)


async def settle(lab, one, two, landing):
    """Do what agents do: look, and send again what still runs at its source."""
    both = 0
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            running = await asyncio.gather(is_running(lab, "one"), is_running(lab, "two"))
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
    assert (await is_running(lab, "one"), await is_running(lab, "two")) == (False, True)
    await one.delete("a")
    assert await power_of(two, "a") == "running"
