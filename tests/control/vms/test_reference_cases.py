"""The cases of the service that this one replaces (vm-service.md, section 3), from a user's spec to a host.

``docs/vm-reference-cases.md`` lists all of them with the tests that show them, and says which cannot apply and why.
Cores are cores, memory is in MiB and disk in GiB; what an agent has not available is taken by another VM there.
Capabilities are labels, bridges or storages of hosts; offline is cordoned, as hosts that nobody hears are.
"""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import HostSize
from hostler.control.vms import desired_state
from hostler.control.vms.guests import HAS_BRIDGE, HAS_STORAGE
from hostler.control.vms.spec import DiskSpec, NetworkSpec, VmSpec
from hostler.control.vms.state import state_of
from hostler.engine import BUILT_IN, Engine
from hostler.model import Bind, Defer, Guest, GuestArrived, GuestSpec, Host, HostJoined, amounts, labels
from tests.agent.stepped_host import SECOND
from tests.control.vms.fleet_model import FleetModel

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


def place(engine: Engine, spec: VmSpec, identity: str = "vm") -> Bind | Defer:
    """Ask for a VM as a user does, and return what the engine makes of it."""
    for fact in desired_state.create(identity, "p", identity, spec).facts:
        engine.apply(fact)
    [action] = [action for action in engine.step(SECOND) if isinstance(action, Bind | Defer)]
    return action


def reasons(hold: Defer) -> dict[str, int]:
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
    pytest.param([agent(), agent()], needs(QEMU), lacks(QEMU), id="none usable"),
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
        id="precedence: the capable one lacks room, and the answer says so",
    ),
    pytest.param(
        [agent(0), agent(0)],
        needs(FIRECRACKER),
        lacks(FIRECRACKER),
        id="precedence: missing ability is reported before missing room",
    ),
    pytest.param([agent(0, 0, 0, total=(0, 0, 0))], vm(), {"insufficient: cpu": 1}, id="zero totals alone"),
]


@pytest.mark.parametrize(("agents", "spec", "expected"), HELD)
def test_a_vm_waits_with_the_reason_why_it_was_refused(agents, spec, expected):
    action = place(fleet(agents), spec)
    assert isinstance(action, Defer), action
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
    model = FleetModel([RESERVABLE])
    model.create("one", WHOLE)
    model.create("two", WHOLE)
    model.decide()
    states = {name: state_of(one) for name, one in model.vms.items()}
    assert states == {"one": "creating", "two": "pending"}
    assert model.vms["two"].why
    model.wish("one", desired_state.delete)
    model.come_to_rest()
    model.check_rest()
    assert state_of(model.vms["two"]) == "running"


def test_promised_room_is_kept_while_host_takes_its_time():
    model = FleetModel([RESERVABLE])
    model.create("one", WHOLE)
    model.decide()
    [host] = model.hosts.values()
    model.now += 10**6 * SECOND
    model.register(host)  # it lists nothing yet
    model.send_report(host)
    model.deliver_report(host)
    model.create("two", WHOLE)
    model.decide()
    assert state_of(model.vms["one"]) == "creating"
    assert state_of(model.vms["two"]) == "pending"
    model.come_to_rest()
    model.check_rest()
    assert model.running_on("one") == ["h0"]


def test_the_same_decision_twice_books_once():
    model = FleetModel([RESERVABLE])
    model.create("one", WHOLE)
    model.step()
    model.decided *= 2
    model.carry_out()
    assert model.engine_holds() == {"h0": model.vms["one"].wanted}
    model.come_to_rest()
    model.check_rest()


def test_a_report_about_one_vm_frees_nothing_of_another():
    model = FleetModel([RESERVABLE])
    model.create("one", vm(2, 4096, 1000))
    model.create("two", vm(2, 4096, 1000))
    model.run(4)
    before = model.engine_holds()
    model.wish("one", desired_state.stop)
    model.run(3)
    freed = before["h0"].beyond(model.engine_holds()["h0"])
    assert (freed.cpu_millis, freed.memory_bytes, freed.disk_bytes) == (2000, 4096 * MIB, 0)


def test_two_hosts_and_two_vms_that_each_fill_one():
    model = FleetModel([RESERVABLE, RESERVABLE])
    model.create("one", WHOLE)
    model.create("two", WHOLE)
    model.create("three", WHOLE)
    model.come_to_rest()
    model.check_rest()
    assert {*model.running_on("one"), *model.running_on("two")} == {"h0", "h1"}
    assert state_of(model.vms["three"]) == "pending"


# -- admission: what a running VM grows by is booked before its host hears of it -----------------------------------

EIGHT = HostSize(cpu_millis=8000, memory_bytes=16 * GIB, disk_bytes=GIB)


def without_disk(cpu: int, memory: int = 8192) -> VmSpec:
    return VmSpec(cpu=str(cpu), memory=f"{memory}Mi")


def test_an_exact_fit_is_accepted_and_one_core_more_waits():
    model = FleetModel([EIGHT])
    model.create("one", without_disk(4))
    model.create("two", without_disk(4))
    model.come_to_rest()
    assert [state_of(one) for one in model.vms.values()] == ["running", "running"]
    model.wish("two", desired_state.resize, without_disk(5))
    model.come_to_rest()
    model.check_rest()
    assert model.vms["two"].why
    assert model.hosts["id-h0"].stepped.driver.vms["two"].order.cpu_millis == 4000
    model.wish("one", desired_state.delete)
    model.come_to_rest()
    model.check_rest()
    assert model.hosts["id-h0"].stepped.driver.vms["two"].order.cpu_millis == 5000


def test_what_is_free_is_not_spent_twice():
    model = FleetModel([EIGHT])
    model.create("one", without_disk(4, 1024))
    model.run(4)
    model.create("two", without_disk(3, 1024))
    model.create("three", without_disk(2, 1024))
    model.decide()
    assert [state_of(model.vms[name]) for name in ("two", "three")] == ["creating", "pending"]
    model.wish("two", desired_state.delete)
    model.come_to_rest()
    model.check_rest()
    assert state_of(model.vms["three"]) == "running"


def test_a_shrink_claims_nothing_and_gives_back_when_it_is_done():
    model = FleetModel([EIGHT])
    model.create("one", without_disk(8))
    model.run(4)
    before = model.vms["one"].number
    model.wish("one", desired_state.resize, without_disk(3))
    model.create("two", without_disk(5))
    model.decide()
    assert model.vms["one"].number == before
    assert state_of(model.vms["two"]) == "pending", "the host has not done it yet"
    model.come_to_rest()
    model.check_rest()
    assert [state_of(one) for one in model.vms.values()] == ["running", "running"]


def test_resize_up_and_down_reserves_the_larger_until_done():
    model = FleetModel([EIGHT])
    model.create("one", without_disk(2, 8192))
    model.run(4)
    model.wish("one", desired_state.resize, without_disk(6, 1024))
    model.decide()
    booked = model.vms["one"].booked
    assert (booked.cpu_millis, booked.memory_bytes) == (6000, 8192 * MIB)
    model.come_to_rest()
    model.check_rest()
    booked = model.vms["one"].booked
    assert (booked.cpu_millis, booked.memory_bytes) == (6000, 1024 * MIB)


def test_a_host_that_does_not_know_what_it_has_gets_nothing_new():
    model = FleetModel([EIGHT])
    [host] = model.hosts.values()
    host.stepped.state = msgspec.structs.replace(host.stepped.state, is_inventory_known=False)
    model.create("one", without_disk(1))
    model.decide()
    model.send_orders(host)
    model.deliver_orders(host)
    assert not host.stepped.step(), "its agent does nothing either"
