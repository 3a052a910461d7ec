"""Works about VMs: each leaves a row, an operation, facts and a trace, or nothing."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from hostler.control.access.errors import ForbiddenError
from hostler.control.access.principals import Principal
from hostler.control.books import ledger
from hostler.control.books.ledger import NEWS
from hostler.control.schemas import VmChanged, VmCreate, VmEdit
from hostler.control.services.callers import AuditNote, Caller
from hostler.control.services.errors import NoAgentsError, TooManyVmsError
from hostler.control.services.tenancy.bounds import MAX_TERMS_OF_VM
from hostler.control.services.vms import vm_changes
from hostler.control.settings import InvalidStrategyError
from hostler.control.store import Connection, Database
from hostler.control.store.errors import NotFoundError, StaleVersionError
from hostler.control.store.history import log
from hostler.control.store.rows import operations
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import VmChange
from hostler.errors import InputError
from tests.control.services.conftest import NOW, Write

SPEC = VmSpec(cpu="1", memory="1Gi")


def ids() -> Any:
    numbers = count(1)
    return lambda: f"id-{next(numbers)}"


def created(write: Write, admin: Caller, **more: Any) -> VmChanged:
    asked = VmCreate(**{"name": "web", "spec": SPEC, **more})
    found: VmChanged = write(lambda c: vm_changes.create(c, asked, admin, ids()))
    return found


def entries(database: Database) -> list[log.StoredEntry]:
    found = database.read_now(lambda c: log.read_after(c, 0, 100))
    return [entry for entry in found if entry.subject != NEWS]


def test_a_create_writes_row_operation_fact_and_trace_together(database: Database, write: Write, admin: Caller) -> None:
    changed = created(write, admin)
    assert (changed.vm.id, changed.vm.state, changed.operation.state) == ("id-1", "pending", "pending")
    kinds = [(entry.kind, entry.actor, entry.subject) for entry in entries(database)]
    assert kinds == [("fact", "key:root", "id-1"), ("note", "key:root", "id-1")]
    noted = msgspec.json.decode(entries(database)[1].body, type=AuditNote)
    assert (noted.what, noted.name, noted.request) == ("vm.create", "web", "r-1")
    row = database.read_now(lambda c: operations.get(c, changed.operation.id))
    assert (row.kind, row.subject, row.generation, row.actor) == ("vm.create", "id-1", 1, "key:root")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"project": "none"}, NotFoundError),
        ({"spec": VmSpec(cpu="0", memory="1Gi")}, InputError),
        ({"spec": VmSpec(cpu="1", memory="1Gi", strategy="best")}, InvalidStrategyError),
        ({"on_unplaceable": "fail"}, NoAgentsError),
        ({"on_unplaceable": "fail", "spec": VmSpec(cpu="1", memory="1Gi", gang="g")}, InputError),
    ],
)
def test_a_refused_create_writes_nothing(
    database: Database, write: Write, admin: Caller, more: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        created(write, admin, **more)
    assert entries(database) == []


def test_a_project_has_no_more_vms_than_it_may_also_where_they_wait(write: Write, admin: Caller) -> None:
    number = ids()

    def ask(name: str) -> VmChanged:
        asked = VmCreate(name=name, spec=SPEC)
        found: VmChanged = write(lambda c: vm_changes.create(c, asked, admin, number, most=2))
        return found

    first = ask("one").vm
    ask("two")
    with pytest.raises(TooManyVmsError, match="project default has 2 VMs, its limit") as caught:
        ask("three")
    assert (caught.value.code, caught.value.exit_code) == ("too_many_vms", 4)
    write(lambda c: vm_changes.delete(c, first.id, admin, number))
    assert ask("three").vm.state == "pending"


def test_a_vm_is_found_by_id_and_by_project_and_name(database: Database, write: Write, admin: Caller) -> None:
    created(write, admin)
    for name in ("id-1", "default/web"):
        assert database.read_now(lambda c, name=name: vm_changes.find(c, name, admin)).vm.id == "id-1"  # type: ignore[misc]
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: vm_changes.find(c, "web", admin))


def test_vm_that_the_caller_may_not_see_is_reported_as_missing(database: Database, write: Write, admin: Caller) -> None:
    created(write, admin)
    stranger = Caller(principal=Principal(id="x", role="admin", project="red"), now_ns=NOW)
    viewer = Caller(principal=Principal(id="y", role="viewer"), now_ns=NOW)
    with pytest.raises(NotFoundError):
        write(lambda c: vm_changes.delete(c, "id-1", stranger, ids()))
    with pytest.raises(ForbiddenError):
        write(lambda c: vm_changes.delete(c, "id-1", viewer, ids()))


def test_versions_that_were_seen_must_be_the_current_one(write: Write, admin: Caller) -> None:
    created(write, admin)
    edit = VmEdit(protected=True)

    def change(connection: Connection, *versions: int) -> VmChanged:
        return vm_changes.edit(connection, "id-1", edit, admin, lambda: f"op-{versions}", versions=frozenset(versions))

    with pytest.raises(StaleVersionError):
        write(lambda c: change(c, 2))
    with pytest.raises(StaleVersionError):
        write(lambda c: change(c))
    assert write(lambda c: change(c, 1, 5)).vm.version == 2


def test_a_vm_that_nobody_decided_about_is_given_up_even_when_protected(
    database: Database, write: Write, admin: Caller
) -> None:
    created(write, admin, protected=True)

    def must_fit(connection: Connection) -> None:
        stored = ledger.load(connection, "id-1")
        change = VmChange(vm=msgspec.structs.replace(stored.vm, fails_unplaced=True))
        ledger.write(connection, stored, change, actor="test", now_ns=NOW)

    write(must_fit)
    stored = write(lambda c: vm_changes.give_up(c, "id-1", admin))
    assert stored.vm.is_gone
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: vm_changes.find(c, "id-1", admin))


def apart_from(count: int) -> VmSpec:
    """Return a VM that is kept apart from so many others, each by a rule of its own."""
    rules = [{"topology": "zone", "selector": {"app": f"x{number}"}} for number in range(count)]
    lists = ("anti_affinity", "affinity", "preferred_anti_affinity", "preferred_affinity")
    each = {name: rules[at::4] for at, name in enumerate(lists)}
    for name in lists[2:]:
        each[name] = [{"weight": 1, "term": rule} for rule in each[name]]
    return msgspec.convert({"cpu": "1", "memory": "1Gi"} | each, VmSpec)


def test_vm_with_too_many_terms_is_rejected(write: Write, admin: Caller) -> None:
    created(write, admin, spec=apart_from(MAX_TERMS_OF_VM))
    with pytest.raises(InputError, match="a VM may have 128"):
        created(write, admin, name="other", spec=apart_from(MAX_TERMS_OF_VM + 1))
