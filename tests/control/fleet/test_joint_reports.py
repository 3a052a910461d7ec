"""What is taken in jointly is what would have been taken in one after the other: reports, orders, new VMs."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.agent.messages import Capabilities, Departed, HostSize, Register, Report, Trouble, VmReport
from hostler.control.access.principals import Principal
from hostler.control.books import ledger
from hostler.control.books.ledger import NEWS
from hostler.control.fleet.agents.host_orders import OrdersQuery, read_orders
from hostler.control.fleet.agents.registrations import take_registration
from hostler.control.fleet.agents.reports import HostReport, take_reports
from hostler.control.schemas import VmCreate
from hostler.control.services import first_start
from hostler.control.services.callers import Caller
from hostler.control.services.vms import vm_changes
from hostler.control.services.vms.vm_changes import Creation
from hostler.control.store import Connection, Database, open_database
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, operations, placements
from hostler.control.store.rows import vms as vm_rows
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.operations import OperationFilter
from hostler.control.store.rows.vms import VmFilter
from hostler.control.store.writes.jobs import JointWork, bind_items
from hostler.control.vms import desired_state, placement
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Booking
from hostler.errors import HostlerError
from tests.control.api.service_in_process import fake_random

NOW = 1_800_000_000_000_000_000
HOSTS, VMS = ("h0", "h1", "h2"), ("v0", "v1", "v2", "v3", "v4")
SIZE = HostSize(cpu_millis=64_000, memory_bytes=2**36)
SPEC = VmSpec(cpu="1", memory="1Gi")

few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@functools.cache
def furnished() -> bytes:
    """Return a database as a file: to make the tables takes longer than what is asked of them, so it is done once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "furnished.db"
        with contextlib.closing(open_database(f"sqlite:///{path}")) as database:
            database.submit(lambda connection: first_start.prepare(connection, NOW, fake_random)).result()
            database.submit(furnish).result()
        assert not path.with_name("furnished.db-wal").exists(), "all of it is in the file"
        return path.read_bytes()


@contextlib.contextmanager
def worlds() -> Iterator[tuple[Database, Database]]:
    """Give two databases that hold the same."""
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        made = []
        for name in ("jointly", "singly"):
            path = Path(folder) / f"{name}.db"
            path.write_bytes(furnished())
            made.append(stack.enter_context(contextlib.closing(open_database(f"sqlite:///{path}"))))
        yield made[0], made[1]


def furnish(connection: Connection) -> None:
    for name in HOSTS:
        hosts.insert(connection, HostRow(id=name, name=name, state="joined", created_ns=NOW))
        message = Register(
            boot="b", agent=f"a-{name}", version="1", driver="fake", capabilities=Capabilities(), size=SIZE
        )
        take_registration(connection, name, message, now_ns=NOW)
    for number, name in enumerate(VMS):
        change = desired_state.create(name, "default", name, SPEC)
        stored = ledger.insert(connection, change, actor="key:1", now_ns=NOW)
        host = HOSTS[number % len(HOSTS)]
        run = stored.vm.run
        assert run is not None
        booked = placement.book_placement(stored.vm, run.uid, run.version, Booking(host=host, name=host, seq=1), ())
        stored = ledger.write(connection, stored, booked, actor="leader", now_ns=NOW)
        if number == 0:
            ledger.write(connection, stored, desired_state.delete(stored.vm), actor="key:1", now_ns=NOW)


def everything(connection: Connection) -> tuple[object, ...]:
    """Return all that is stored, but for when things were changed and how entries of the log are mixed."""
    wanted = VmFilter(with_deleted=True)
    facts = Counter(
        (entry.kind, entry.actor, entry.project, entry.subject, entry.body)
        for entry in log.read_after(connection, 0, 10_000)
        if entry.subject != NEWS
    )
    return (
        vm_rows.list_page(connection, wanted, limit=500).items,
        hosts.all_alive(connection),
        placements.all_rows(connection),
        operations.list_page(connection, OperationFilter(), limit=500).items,
        facts,
    )


def plain(outcomes: Sequence[object]) -> list[object]:
    """Return outcomes so that errors can be compared."""
    return [(type(one), one.message) if isinstance(one, HostlerError) else one for one in outcomes]


def same_in_both(work: JointWork[Any, Any], items: Sequence[Any]) -> None:
    with worlds() as (jointly, singly):
        together = jointly.submit(bind_items(work, items)).result()
        alone = [singly.submit(bind_items(work, [item])).result()[0] for item in items]
        assert plain(together) == plain(alone)
        assert jointly.read_now(everything) == singly.read_now(everything)


TROUBLE = Trouble(kind="permanent", code="broken", message="it does not start")
vm_reports = st.builds(
    VmReport,
    vm=st.sampled_from((*VMS, "nobody")),
    state=st.sampled_from(("absent", "creating", "running", "stopped", "left")),
    generation=st.integers(0, 4),
    trouble=st.sampled_from((None, TROUBLE)),
    failed_generation=st.integers(0, 2),
)

departures = st.builds(Departed, vm=st.sampled_from(VMS), generation=st.integers(0, 4))


@st.composite
def told(draw: st.DrawFn) -> HostReport:
    host = draw(st.sampled_from((*HOSTS, "gone")))
    message = Report(
        boot="b",
        agent=f"a-{host}",
        epoch=draw(st.sampled_from((1, 1, 1, 1, 0, 2))),
        sequence=1,
        vms=tuple(draw(st.lists(vm_reports, max_size=3))),
        gone=tuple(draw(st.lists(st.sampled_from(VMS), max_size=1))),
        departed=tuple(draw(st.lists(departures, max_size=1))),
        unknown=draw(st.sampled_from((None, None, (), ("stray",)))),
        is_watched=draw(st.booleans()),
        size=draw(st.sampled_from((None, None, None, HostSize(cpu_millis=-1, memory_bytes=0), SIZE))),
    )
    return HostReport(host=host, message=message, now_ns=NOW)


@few
@given(st.lists(told(), min_size=1, max_size=8))
def test_reports_taken_jointly_are_those_taken_one_after_the_other(items: list[HostReport]) -> None:
    same_in_both(take_reports, items)


@few
@given(st.lists(st.builds(OrdersQuery, st.sampled_from((*HOSTS, "gone")), st.integers(0, 5)), min_size=1, max_size=5))
def test_orders_asked_jointly_are_those_asked_one_after_the_other(items: list[OrdersQuery]) -> None:
    same_in_both(read_orders, items)


@st.composite
def creations(draw: st.DrawFn) -> list[Creation]:
    made = []
    most = draw(st.sampled_from((2, 3, 10_000)))
    for number in range(draw(st.integers(1, 6))):
        principal = Principal(id="root", role=draw(st.sampled_from(("admin", "admin", "viewer"))))
        asked = VmCreate(
            name=draw(st.sampled_from(("v1", "new", "newer", "newest"))),
            project=draw(st.sampled_from(("default", "default", "default", "none"))),
            spec=draw(
                st.sampled_from(
                    (SPEC, SPEC, VmSpec(cpu="0", memory="1Gi"), VmSpec(cpu="1", memory="1Gi", strategy="x"))
                )
            ),
            on_unplaceable=draw(st.sampled_from(("wait", "fail"))),
        )
        caller = Caller(principal=principal, now_ns=NOW, request_id=f"r-{number}")
        made.append(Creation(asked=asked, caller=caller, ids=partial(str, number), most=most))
    return made


@few
@given(creations())
def test_vms_created_jointly_are_those_created_one_after_the_other(items: list[Creation]) -> None:
    same_in_both(vm_changes.create_many, items)


def test_two_hosts_that_tell_of_one_vm_are_taken_in_their_order() -> None:
    reports = [
        HostReport(
            host=host,
            message=Report(boot="b", agent=f"a-{host}", epoch=1, sequence=1, vms=(VmReport(vm="v1", state=state),)),
            now_ns=NOW,
        )
        for host, state in (("h1", "creating"), ("h0", "running"), ("h1", "running"))
    ]
    with worlds() as (database, _):
        database.submit(lambda connection: take_reports(connection, reports)).result()
        assert database.read_now(lambda c: ledger.load(c, "v1")).vm.reported == "running"
        body = msgspec.json.decode(database.read_now(lambda c: hosts.get(c, "h0")).body)
        assert body["remains"] == ["v1"]
