"""The command line of QEMU: whatever an order says, nothing of it becomes an option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agent.driver import PermanentError
from hostler.agent.drivers.machine.allowlist import plain_path
from hostler.agent.drivers.qemu.command import Boot, DiskFile, command_line, mac_of, size_from_arguments
from hostler.agent.drivers.qemu.folder import VmFolder, folder_of
from hostler.agent.messages import Order, VmNetwork

VMS = Path("/state/vms")
FOLDER = VmFolder(VMS / "a")


def order(**changes):
    return Order(vm="a", generation=1, power="running", **{"memory_bytes": 2**27, **changes})


def line(the_order=None, **boot):
    return command_line("qemu", the_order or order(), FOLDER, Boot(**{"acceleration": "tcg", **boot}))


def value(command, option):
    return command[command.index(option) + 1]


def test_a_vm_is_confined_and_gets_what_was_ordered():
    command = line(order(cpu_count=3, memory_bytes=2**30 + 1))
    assert value(command, "-sandbox").startswith("on,")
    assert {"-no-user-config", "-nodefaults"} <= set(command)
    assert value(command, "-smp") == "cpus=3"
    assert value(command, "-m") == "size=1025M", "a part of a mebibyte is not lost"
    assert value(command, "-netdev") == "user,id=net0,restrict=on"
    assert "-incoming" not in command


def test_a_landing_waits_and_does_not_run_by_itself():
    command = line(is_landing=True)
    assert value(command, "-incoming") == "defer"
    assert "-S" in command


def test_a_vm_without_a_network_has_none():
    assert "-netdev" not in line(order(network=VmNetwork(kind="none")))


def test_a_bridge_comes_as_an_open_descriptor_only():
    bridged = order(network=VmNetwork(kind="bridge", bridge="br0,script=/bin/sh"))
    assert value(line(bridged, tap=7), "-netdev") == "tap,id=net0,fd=7"
    with pytest.raises(PermanentError):
        line(bridged)


def test_formats_and_what_lies_below_a_disk_are_said_and_not_guessed():
    disk = DiskFile(
        path=Path("/d/disk0.qcow2"), descriptor=5, base=Path("/i/base"), base_descriptor=6, base_format="qcow2"
    )
    node = json.loads(value(line(disks=(disk,)), "-blockdev"))
    assert (node["driver"], node["backing"]["driver"], node["backing"]["read-only"]) == ("qcow2", "qcow2", True)
    assert node["backing"]["backing"] is None, "its header is not asked for more files"
    assert json.loads(value(line(disks=(DiskFile(path=Path("/d"), descriptor=5),)), "-blockdev"))["backing"] is None


@given(st.text(max_size=80))
def test_arguments_of_the_kernel_stay_one_argument_whatever_they_are(text):
    plain = line(kernel=Path("/k"))
    try:
        command = line(order(kernel_arguments=text), kernel=Path("/k"))
    except PermanentError:
        assert not text.isprintable()
        return
    at = plain.index("-append") + 1
    assert command[at] == text
    assert command[:at] + command[at + 1 :] == plain[:at] + plain[at + 1 :]


def test_arguments_or_a_ram_disk_without_a_kernel_are_refused():
    with pytest.raises(PermanentError):
        line(order(kernel_arguments="quiet"))
    with pytest.raises(PermanentError):
        line(initrd=Path("/i"))
    with pytest.raises(PermanentError):
        line(order(kernel_arguments="x" * 2001), kernel=Path("/k"))


HOSTILE = [
    "/a,b",
    "/a,,b",
    "a",
    "",
    "json:{}",
    "nbd:unix:/x",
    "/a\nb",
    "/a\0b",
    "/a\x7fb",
    "-drive",
    "file=/x,readonly=on",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_could_be_read_as_something_else_is_refused(path):
    with pytest.raises(PermanentError):
        plain_path(path)  # as text: a Path would tidy some of these up
    for where in ({"kernel": Path(path)}, {"kernel": Path("/k"), "initrd": Path(path)}):
        if path not in ("", "a"):
            with pytest.raises(PermanentError):
                line(**where)


@given(st.text(max_size=70))
def test_a_name_is_refused_or_changes_nothing_but_itself(name):
    try:
        folder = folder_of(VMS, name)
    except PermanentError:
        return
    command = command_line("qemu", order(), folder, Boot(acceleration="tcg"))
    assert folder.path.parent == VMS
    assert [part.replace(f"/{name}/", "/a/").replace(f"guest={name},", "guest=a,") for part in command] == line()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a,b", "a=b", "-a", "a b", "a\n", "a\0", "ä", "x" * 65, ".hidden", "a,,b"]
)
def test_names_that_could_lead_elsewhere_are_refused(name):
    with pytest.raises(PermanentError):
        folder_of(VMS, name)


def test_the_address_of_a_card_is_the_vms_own_and_local():
    assert mac_of("a") == mac_of("a") != mac_of("b")
    assert mac_of("a").startswith("52:54:00:")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["q", "-smp", "cpus=4", "-m", "size=2048M"], (4, 2**31)),
        (["q", "-smp", "2,sockets=2", "-m", "4G"], (2, 2**32)),
        (["q", "-m", "512"], (1, 2**29)),
        (["q", "-smp"], (1, 0)),
        (["q", "-m", "lots"], (1, 0)),
        (["q", "-m", "9" * 5000], (1, 0)),
        (["q", "-m", f"size={'9' * 5000}T"], (1, 0)),
        (["q", "-m", "99999999999999999999T"], (1, 0)),
        (["q", "-m", "8388608T"], (1, 0)),
        (["q", "-smp", "9" * 5000, "-m", "1G"], (1, 2**30)),
        (["q", "-smp", "4294967296"], (1, 0)),
        (["q", "-smp", "\u0663", "-m", "\u0663"], (1, 0)),
        (["q", "-smp", "-1", "-m", "-1"], (1, 0)),
    ],
)
def test_the_size_of_a_stranger_is_read_from_its_command_line(arguments, expected):
    assert size_from_arguments(arguments) == expected


def test_what_we_start_is_read_back_in_its_size():
    assert size_from_arguments(line(order(cpu_count=2, memory_bytes=2**28))) == (2, 2**28)
