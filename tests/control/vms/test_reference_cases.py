"""The cases of the service that this one replaces (vm-service.md, section 3), from a user's spec to a host.

``docs/vm-reference-cases.md`` lists all of them with the tests that show them, and says which cannot apply and why.
Cores are cores, memory is in MiB and disk in GiB; what an agent has not available is taken by another VM there.
Capabilities are labels, bridges or storages of hosts; offline is cordoned, as hosts that nobody hears are.
"""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import HostSize
from hostler.control.vms import wishes
from hostler.control.vms.guests import HAS_BRIDGE, HAS_STORAGE
from hostler.control.vms.spec import DiskSpec, NetworkSpec, VmSpec
from hostler.control.vms.state import state_of
from hostler.engine import BUILT_IN, Engine
from hostler.model import Bind, Guest, GuestArrived, GuestSpec, Hold, Host, HostJoined, amounts, labels
from tests.agent.site import SECOND
from tests.control.vms.world import World

MIB, GIB = 2**20, 2**30
TOTAL = (8, 16000, 100_000)
OFFLINE = {"is_online": False}


def agent(cpu=6, memory=12000, disk=80000, *, total=TOTAL, is_online=True, has=()):
    return {"free": (cpu, memory, disk), "total": total, "is_online": is_online, "has": dict.fromkeys(has, "yes")}


def vm(cpu=2, memory=2048, disk=20000, **more) -> VmSpec:
    return VmSpec(cpu=str(cpu), memory=f"{memory}Mi", disks=[DiskSpec(size=f"{disk}Gi", **more.pop("on", {}))], **more)


def fleet(agents, default="least_loaded") -> Engine:
    names = [default, *(name for name in BUILT_IN if name not in (default, "fgd"))]  # fgd needs a mix of its own
    engine = Engine([BUILT_IN[name] for name in names])
    for number, one in enumerate(agents, 1):
        name, (cpu, memory, disk) = str(number), one["total"]
        capacity = amounts({"cpu": cpu * 1000, "memory": memory * MIB, "storage": disk * GIB})
        host = Host(name=name, capacity=capacity, cordoned=not one["is_online"], labels=labels(one["has"]))
        engine.apply(HostJoined(host=host))
        taken = [have - free for have, free in zip(one["total"], one["free"], strict=True)]
        used = amounts({"cpu": taken[0] * 1000, "memory": taken[1] * MIB, "storage": taken[2] * GIB})
        if used:
            other = Guest(name=f"on {name}", uid=f"on {name}", host=name, spec=GuestSpec(requests=used))
            engine.apply(GuestArrived(guest=other))
    return engine


def place(engine: Engine, spec: VmSpec, identity: str = "vm") -> Bind | Hold:
    """Ask for a VM as a user does, and return what the engine makes of it."""
    for fact in wishes.create(identity, "p", identity, spec).facts:
        engine.apply(fact)
    [action] = [action for action in engine.step(SECOND) if isinstance(action, Bind | Hold)]
    return action


def reasons(hold: Hold) -> dict[str, int]:
    return {count.reason.text(): count.hosts for count in hold.reasons}


def lacks(label: str, hosts: int = 2) -> dict[str, int]:
    return {f"selector mismatch: {label}=yes": hosts}


SMALL, LARGE = agent(cpu=1), agent()
TIGHT, MIDDLE = agent(2, 4000, 20000), agent(4, 8000, 50000)
TPM, VSOCK, RUNTIME, FIRECRACKER, QEMU = "has/vtpm", "has/vsock", "has/sandboxes", "runs/firecracker", "runs/qemu"
ARM, X86, OVN, METADATA = "arch/arm64", "arch/x86-64", f"{HAS_BRIDGE}ovn", "has/metadata"
SANDBOX_NIC = "has/sandbox-networking"


def needs(*which: str, **more) -> VmSpec:
    return vm(host_selector=dict.fromkeys(which, "yes"), **more)


ON_OVN = NetworkSpec(kind="bridge", bridge="ovn")

PLACED = [
    pytest.param([agent(2), agent(6), agent(4)], vm(2, 2000, 10000), "2", id="least loaded"),
    pytest.param([agent(memory=4000), agent(memory=14000)], vm(1, 2000, 10000), "2", id="least loaded is the default"),
    pytest.param([LARGE, TIGHT, MIDDLE], vm(1, 2000, 10000, strategy="best_fit"), "2", id="best fit"),
    pytest.param([agent(**OFFLINE), agent(2)], vm(), "2", id="offline filtered"),
    pytest.param([SMALL, agent(2)], vm(), "2", id="cpu too small"),
    pytest.param([agent(8, 1000), agent(2)], vm(), "2", id="memory too small"),
    pytest.param([agent(8, disk=10000), agent(2)], vm(), "2", id="disk too small"),
    pytest.param([agent(2), agent(6)], vm(1, 2000, 10000), "2", id="the default"),
    pytest.param([agent(2), agent(6)], vm(1, 2000, 10000, strategy="best_fit"), "1", id="overridden"),
    pytest.param([agent(0, 0, 0, total=(0, 0, 0)), LARGE], vm(), "2", id="zero totals"),
    pytest.param([agent(2, 2048, 20000)], vm(), "1", id="exact fit"),
    pytest.param([agent(8, has=[QEMU]), agent(2, has=[QEMU, FIRECRACKER])], needs(FIRECRACKER), "2", id="hypervisor"),
    pytest.param([agent(8, has=[X86]), agent(8), agent(2, has=[ARM])], needs(ARM), "3", id="architecture"),
    pytest.param([agent(8), agent(2, has=[OVN])], vm(network=ON_OVN), "2", id="networking"),
    pytest.param(
        [agent(8, has=[OVN]), agent(2, has=[OVN, METADATA])], needs(METADATA, network=ON_OVN), "2", id="metadata"
    ),
    pytest.param([agent(8), agent(2, has=[RUNTIME])], needs(RUNTIME), "2", id="sandbox runtime"),
    pytest.param(
        [agent(8, has=[RUNTIME]), agent(2, has=[RUNTIME, SANDBOX_NIC])],
        needs(RUNTIME, SANDBOX_NIC),
        "2",
        id="sandbox nic",
    ),
    pytest.param([agent(8, has=[RUNTIME]), agent(2)], needs(RUNTIME), "1", id="a sandbox without a nic needs none"),
    pytest.param([agent(8), agent(2, has=[TPM])], needs(TPM), "2", id="vtpm"),
    pytest.param([agent(8), agent(2, has=[VSOCK])], needs(VSOCK), "2", id="vsock"),
    pytest.param([agent(8), agent(2, has=[f"{HAS_STORAGE}pool"])], vm(on={"storage": "pool"}), "2", id="storage pool"),
]


@pytest.mark.parametrize(("agents", "spec", "expected"), PLACED)
def test_a_vm_goes_where_it_went(agents, spec, expected):
    action = place(fleet(agents), spec)
    assert isinstance(action, Bind), action
    assert action.host == expected


HELD = [
    pytest.param([], vm(), {}, id="no agents"),
    pytest.param([SMALL], vm(), {"insufficient: cpu": 1}, id="too small"),
    pytest.param([agent(memory=2047)], vm(), {"insufficient: memory": 1}, id="one MiB short"),
    pytest.param([agent(disk=19999)], vm(), {"insufficient: storage": 1}, id="one GiB short"),
    pytest.param([agent(**OFFLINE), agent(**OFFLINE)], vm(), {"cordoned": 2}, id="all offline"),
    pytest.param(
        [agent(has=[QEMU]), agent(has=[QEMU])], needs(FIRECRACKER), lacks(FIRECRACKER), id="unsupported hypervisor"
    ),
    pytest.param([agent(has=[QEMU]), agent()], needs(FIRECRACKER), lacks(FIRECRACKER), id="broken agents counted"),
    pytest.param([agent(), agent()], needs(QEMU), lacks(QEMU), id="nobody usable"),
    pytest.param([agent(has=[X86]), agent()], needs(ARM), lacks(ARM), id="architecture mismatch"),
    pytest.param([agent(), agent()], vm(network=ON_OVN), lacks(OVN), id="networking"),
    pytest.param([agent(has=[OVN]), agent(has=[OVN])], needs(METADATA, network=ON_OVN), lacks(METADATA), id="metadata"),
    pytest.param([agent(), agent()], needs(RUNTIME), lacks(RUNTIME), id="sandbox runtime"),
    pytest.param(
        [agent(has=[RUNTIME]), agent(has=[RUNTIME])],
        needs(RUNTIME, SANDBOX_NIC),
        lacks(SANDBOX_NIC),
        id="sandbox nic",
    ),
    pytest.param([agent(), agent()], needs(TPM), lacks(TPM), id="vtpm"),
    pytest.param([agent(), agent()], needs(VSOCK), lacks(VSOCK), id="vsock"),
    pytest.param([agent(), agent()], vm(on={"storage": "pool"}), lacks(f"{HAS_STORAGE}pool"), id="storage pool"),
    pytest.param(
        [agent(0, has=[FIRECRACKER]), agent(8)],
        needs(FIRECRACKER),
        {"insufficient: cpu": 1, **lacks(FIRECRACKER, 1)},
        id="precedence: the capable one lacks room, and that is told too",
    ),
    pytest.param(
        [agent(0), agent(0)],
        needs(FIRECRACKER),
        lacks(FIRECRACKER),
        id="precedence: what nobody can ever do is told before what nobody has room for",
    ),
    pytest.param([agent(0, 0, 0, total=(0, 0, 0))], vm(), {"insufficient: cpu": 1}, id="zero totals alone"),
]


@pytest.mark.parametrize(("agents", "spec", "expected"), HELD)
def test_a_vm_waits_with_the_reason_why_it_was_refused(agents, spec, expected):
    action = place(fleet(agents), spec)
    assert isinstance(action, Hold), action
    assert reasons(action) == expected
    assert action.hosts == len(agents)


def test_round_robin_takes_turns():
    engine = fleet([LARGE, LARGE, LARGE])
    spec = vm(1, 1, 1, strategy="round_robin")
    assert [place(engine, spec, f"vm{number}").host for number in range(4)] == ["1", "2", "3", "1"]


def test_random_takes_one_of_them():
    chosen = {place(fleet([LARGE, LARGE]), vm(strategy="random"), f"vm{number}").host for number in range(20)}
    assert chosen == {"1", "2"}


# -- reservations: agents of 4 cores, 8192 MiB and 50000 GiB --------------------------------------------------------

RESERVABLE = HostSize(cpu_millis=4000, memory_bytes=8192 * MIB, disk_bytes=50000 * GIB)
WHOLE = vm(4, 8192, 50000)


def test_of_two_that_want_all_of_a_host_one_gets_it_and_its_end_frees_it():
    world = World([RESERVABLE])
    world.create("one", WHOLE)
    world.create("two", WHOLE)
    world.decide()
    states = {name: state_of(one) for name, one in world.vms.items()}
    assert states == {"one": "creating", "two": "pending"}
    assert world.vms["two"].why
    world.wish("one", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["two"]) == "running"


def test_a_promise_is_kept_however_long_its_host_takes_and_whatever_it_reports_meanwhile():
    world = World([RESERVABLE])
    world.create("one", WHOLE)
    world.decide()
    [host] = world.hosts.values()
    world.now += 10**6 * SECOND
    world.register(host)  # it lists nothing yet
    world.send_report(host)
    world.deliver_report(host)
    world.create("two", WHOLE)
    world.decide()
    assert state_of(world.vms["one"]) == "creating"
    assert state_of(world.vms["two"]) == "pending"
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("one") == ["h0"]


def test_the_same_decision_twice_books_once():
    world = World([RESERVABLE])
    world.create("one", WHOLE)
    world.step()
    world.decided *= 2
    world.carry_out()
    assert world.engine_holds() == {"h0": world.vms["one"].wanted}
    world.come_to_rest()
    world.check_rest()


def test_a_report_about_one_vm_frees_nothing_of_another():
    world = World([RESERVABLE])
    world.create("one", vm(2, 4096, 1000))
    world.create("two", vm(2, 4096, 1000))
    world.run(4)
    before = world.engine_holds()
    world.wish("one", wishes.stop)
    world.run(3)
    freed = before["h0"].beyond(world.engine_holds()["h0"])
    assert (freed.cpu_millis, freed.memory_bytes, freed.disk_bytes) == (2000, 4096 * MIB, 0)


def test_two_hosts_and_two_vms_that_each_fill_one():
    world = World([RESERVABLE, RESERVABLE])
    world.create("one", WHOLE)
    world.create("two", WHOLE)
    world.create("three", WHOLE)
    world.come_to_rest()
    world.check_rest()
    assert {*world.running_on("one"), *world.running_on("two")} == {"h0", "h1"}
    assert state_of(world.vms["three"]) == "pending"


# -- admission: what a running VM grows by is booked before its host hears of it -----------------------------------

EIGHT = HostSize(cpu_millis=8000, memory_bytes=16 * GIB, disk_bytes=GIB)


def without_disk(cpu: int, memory: int = 8192) -> VmSpec:
    return VmSpec(cpu=str(cpu), memory=f"{memory}Mi")


def test_an_exact_fit_is_accepted_and_one_core_more_waits():
    world = World([EIGHT])
    world.create("one", without_disk(4))
    world.create("two", without_disk(4))
    world.come_to_rest()
    assert [state_of(one) for one in world.vms.values()] == ["running", "running"]
    world.wish("two", wishes.resize, without_disk(5))
    world.come_to_rest()
    world.check_rest()
    assert world.vms["two"].why
    assert world.hosts["id-h0"].site.driver.vms["two"].order.cpu_millis == 4000
    world.wish("one", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert world.hosts["id-h0"].site.driver.vms["two"].order.cpu_millis == 5000


def test_what_is_free_is_not_spent_twice():
    world = World([EIGHT])
    world.create("one", without_disk(4, 1024))
    world.run(4)
    world.create("two", without_disk(3, 1024))
    world.create("three", without_disk(2, 1024))
    world.decide()
    assert [state_of(world.vms[name]) for name in ("two", "three")] == ["creating", "pending"]
    world.wish("two", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["three"]) == "running"


def test_a_shrink_claims_nothing_and_gives_back_when_it_is_done():
    world = World([EIGHT])
    world.create("one", without_disk(8))
    world.run(4)
    before = world.vms["one"].number
    world.wish("one", wishes.resize, without_disk(3))
    world.create("two", without_disk(5))
    world.decide()
    assert world.vms["one"].number == before
    assert state_of(world.vms["two"]) == "pending", "the host has not done it yet"
    world.come_to_rest()
    world.check_rest()
    assert [state_of(one) for one in world.vms.values()] == ["running", "running"]


def test_a_resize_up_and_down_at_once_books_the_larger_of_both_until_it_is_done():
    world = World([EIGHT])
    world.create("one", without_disk(2, 8192))
    world.run(4)
    world.wish("one", wishes.resize, without_disk(6, 1024))
    world.decide()
    booked = world.vms["one"].booked
    assert (booked.cpu_millis, booked.memory_bytes) == (6000, 8192 * MIB)
    world.come_to_rest()
    world.check_rest()
    booked = world.vms["one"].booked
    assert (booked.cpu_millis, booked.memory_bytes) == (6000, 1024 * MIB)


def test_a_host_that_does_not_know_what_it_has_gets_nothing_new():
    world = World([EIGHT])
    [host] = world.hosts.values()
    host.site.state = msgspec.structs.replace(host.site.state, is_inventory_known=False)
    world.create("one", without_disk(1))
    world.decide()
    world.send_orders(host)
    world.deliver_orders(host)
    assert not host.site.step(), "its agent does nothing either"
