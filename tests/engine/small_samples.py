"""Random hosts and guests of a few small sizes and marks, so that they meet, collide and just miss each other."""

from __future__ import annotations

from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.model import (
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    Policy,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
    amounts,
    labels,
)
from tests.engine.fleet import policy
from tests.engine.twin import Twin

NAMES = ["a", "b", "c", "d"]

zones = st.sampled_from([{}, {"zone": "x"}, {"zone": "y"}, {"zone": "x", "size": "5"}, {"size": "12"}, {"size": "big"}])
taint_lists = st.sampled_from(
    [(), (), (), (Taint("t"),), (Taint("s", "", "PreferNoSchedule"),), (Taint("u", "1", "NoExecute"), Taint("t"))]
)
device_lists = st.sampled_from(
    [
        (),
        (Device("gpu", "A"), Device("gpu", "A")),
        (Device("gpu", "B"), Device("nic")),
        (Device("gpu", "A", 500), Device("gpu", "B")),
        (Device("nic", "", 500),),
    ]
)


def sizes(most: int) -> st.SearchStrategy[dict[str, int]]:
    number = st.integers(0, most)
    return st.fixed_dictionaries({"cpu": number, "memory": number}, optional={"fpga": st.integers(0, 2)})


def hosts(name: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Host]:
    return st.builds(
        lambda own, size, places, devices, marks, taints, cordoned, rank, ratio, kept: Host(
            name=own,
            capacity=amounts(size | places),
            devices=devices,
            labels=labels(marks),
            taints=taints,
            cordoned=cordoned,
            rank=rank,
            overcommit=ratio,
            reserve=kept,
        ),
        name if name is not None else st.sampled_from(NAMES),
        sizes(8),
        st.sampled_from([{}, {}, {"guests": 2}]),
        device_lists,
        zones,
        taint_lists,
        st.sampled_from([False, False, False, True]),
        st.integers(0, 1),
        st.sampled_from([(), (), (("cpu", 1_500_000),)]),
        st.sampled_from([(), (), (("memory", 1),)]),
    )


fleets = st.lists(hosts(), min_size=1, max_size=4, unique_by=lambda host: host.name)

single_devices = st.sampled_from(
    [(), (), (), (DeviceRequest("gpu", 1, 300),), (DeviceRequest("gpu", 2),), (DeviceRequest("gpu", 1, 600, ("B",)),)]
)
# At most one request of a kind, which is what the slow twin understands.
separate_devices = single_devices | st.just((DeviceRequest("nic", 1, 500), DeviceRequest("gpu", 1, 500)))
several_devices = separate_devices | st.sampled_from(
    [
        (DeviceRequest("gpu", 1, 300), DeviceRequest("gpu", 1, 1000)),
        (DeviceRequest("gpu", 2, 300), DeviceRequest("gpu", 1, 600, ("A",))),
    ]
)
terms = st.sampled_from(
    [
        Term((Expression("zone", "In", ("x",)),)),
        Term((Expression("zone", "NotIn", ("x",)), Expression("size", "Exists"))),
        Term((Expression("size", "Gt", ("7",)),)),
        Term((Expression("size", "Lt", ("7",)),), (Expression("metadata.name", "NotIn", ("a",)),)),
        Term((), (Expression("metadata.name", "In", ("a", "c")),)),
        Term(),
    ]
)
wishes = st.lists(st.builds(WeightedTerm, st.sampled_from([1, 10, 100]), terms), max_size=2).map(tuple)


def specs(devices: st.SearchStrategy[tuple[DeviceRequest, ...]] = separate_devices) -> st.SearchStrategy[GuestSpec]:
    return st.builds(
        lambda size, wanted, selector, needed, preferred, tolerations, only, priority: GuestSpec(
            requests=amounts(size),
            devices=wanted,
            host_selector=labels(selector),
            host_affinity=needed,
            preferred_hosts=preferred,
            tolerations=tolerations,
            host_name=only,
            priority=priority,
        ),
        sizes(5),
        devices,
        st.sampled_from([{}, {}, {}, {"zone": "x"}, {"zone": "x", "size": "5"}]),
        st.lists(terms, max_size=2).map(tuple) | st.just(()),
        wishes | st.just(()),
        st.sampled_from([(), (), (Toleration("t", "Exists"),), (Toleration("", "Exists"),)]),
        st.sampled_from(["", "", "", "", "b"]),
        st.sampled_from([0, 0, 5]),
    )


def engine_and_twin(
    chosen: str | Policy, fleet: list[Host], tenants: list[tuple[GuestSpec, int]]
) -> tuple[Engine, Twin]:
    """Return an engine and its slow twin with hosts, and with guests that run there by facts."""
    own = policy(chosen) if isinstance(chosen, str) else chosen
    engine, twin = Engine([own]), Twin(own)
    for host in fleet:
        engine.apply(HostJoined(host=host))
        twin.put(host)
    for number, (spec, at) in enumerate(tenants):
        host = fleet[at % len(fleet)]
        kinds = [device.kind for device in host.devices]
        if any(kinds.count(request.kind) < request.count for request in spec.devices):
            continue  # it would run there without its devices, which the twin does not understand
        uid = f"tenant-{number}"
        engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec, host=host.name)))
        twin.book(host.name, uid, spec, engine.decision(uid).devices)
        twin.see(name for name, _ in spec.requests)
    return engine, twin


tenants = st.lists(st.tuples(specs(), st.integers(0, 9)), max_size=4)
