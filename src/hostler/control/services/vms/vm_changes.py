"""Changes of VMs by users: each work loads a VM, lets ``vms.desired_state`` decide, and writes it with an operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hostler.control.access.errors import ForbiddenError
from hostler.control.access.names import check_not_id
from hostler.control.books import ledger
from hostler.control.books.ledger import NewVm, StoredVm
from hostler.control.fleet.hosts.driver_capabilities import check_migration, check_resize
from hostler.control.schemas import VmChanged, VmCreate, VmEdit
from hostler.control.services.callers import Caller, write_audit_note
from hostler.control.services.errors import NoAgentsError, TooManyVmsError
from hostler.control.services.event_texts import resize_text
from hostler.control.services.merge_patch import apply_patch
from hostler.control.services.tenancy.bounds import check_bounds
from hostler.control.services.tenancy.projects import with_strategies, with_strategy
from hostler.control.services.versions import Versions, check_version
from hostler.control.services.vms.lost_vms import start_vm
from hostler.control.services.vms.overtaken_operations import SIZES, end_overtaken, size_body
from hostler.control.services.vms.vm_views import show_operation, show_vm
from hostler.control.settings import MOST_VMS_EACH, check_strategy
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import hosts, operations, vms
from hostler.control.store.rows.hosts import HostFilter
from hostler.control.store.rows.operations import OperationRow
from hostler.control.vms import desired_state
from hostler.control.vms.errors import WrongStateError
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Vm, VmChange, is_settled, state_of
from hostler.errors import Cause, HostlerError, InputError
from hostler.model.vocabulary import plural

__all__ = [
    "POWER", "Creation", "NewId", "cancel_migration", "create", "create_many", "delete", "edit", "find", "give_up",
    "migrate", "power",
]  # fmt: skip

NewId = Callable[[], str]

POWER: Mapping[str, Callable[[Vm], VmChange]] = {
    "stop": desired_state.stop,
    "restart": desired_state.restart,
    "pause": desired_state.pause,
    "resume": desired_state.resume,
}
_PROTECTION = {True: "vm.protect", False: "vm.unprotect"}
_FAILS_ALONE = "a member of a gang waits for the others: leave out gang, or on_unplaceable"


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a new VM."""

    asked: VmCreate
    caller: Caller
    ids: NewId
    most: int = MOST_VMS_EACH  # VMs of its project


def create(
    connection: Connection, asked: VmCreate, caller: Caller, ids: NewId, *, most: int = MOST_VMS_EACH
) -> VmChanged:
    """Create a VM. NameTakenError, TooManyVmsError.

    NoAgentsError for a VM that must be placed at once while no host is ready.
    """
    outcome = create_many(connection, [Creation(asked=asked, caller=caller, ids=ids, most=most)])[0]
    if isinstance(outcome, HostlerError):
        raise outcome
    return outcome


def create_many(connection: Connection, creations: Sequence[Creation]) -> list[VmChanged | HostlerError]:
    """Create VMs, as a joint work. If they exceed a limit together, they are created one by one."""
    full = _full(connection, creations)
    if full and len(creations) > 1:
        return [outcome for one in creations for outcome in create_many(connection, [one])]
    outcomes: list[VmChanged | HostlerError | None] = []
    news: list[tuple[Creation, NewVm]] = []
    specs = with_strategies(connection, [(one.asked.project, one.asked.spec) for one in creations])
    for creation, spec in zip(creations, specs, strict=True):
        try:
            change = _new_vm(connection, creation, spec)
            if creation.asked.project in full:
                raise _too_many(creation)
        except HostlerError as error:
            outcomes.append(error)
        else:
            caller = creation.caller
            news.append((creation, NewVm(change=change, actor=caller.actor, now_ns=caller.now_ns)))
            outcomes.append(None)
    answers = iter(_write_new_vms(connection, news))
    return [next(answers) if outcome is None else outcome for outcome in outcomes]


def _full(connection: Connection, creations: Sequence[Creation]) -> set[str]:
    """Return the projects that would exceed their number of VMs if all of these were created."""
    asked = Counter(one.asked.project for one in creations)
    most = {one.asked.project: one.most for one in creations}
    counts = {name: vms.count_by_project(connection, name).get(name, 0) for name in asked}
    return {name for name in asked if counts[name] + asked[name] > most[name]}


def _too_many(creation: Creation) -> TooManyVmsError:
    return TooManyVmsError(
        f"project {creation.asked.project} has {plural(creation.most, 'VM')}, its limit",
        hint="delete unused VMs; 'hostler serve --vms-per-project' sets how many one may have",
    )


def _new_vm(connection: Connection, creation: Creation, spec: VmSpec) -> VmChange:
    asked = creation.asked
    creation.caller.principal.check("vm.create", asked.project)
    check_not_id(asked.name, "VM")
    _check(spec, creation.caller)
    check_bounds(connection, asked.project, spec, creation.caller)
    _check_host(connection, "host_name", spec.host_name)
    must_fit = asked.on_unplaceable == "fail"
    if must_fit and spec.gang:
        raise InputError("on_unplaceable: fail is not possible in a gang", hint=_FAILS_ALONE)
    change = desired_state.create(creation.ids(), asked.project, asked.name, spec, is_protected=asked.protected)
    if must_fit:
        change = msgspec.structs.replace(change, vm=msgspec.structs.replace(change.vm, fails_unplaced=True))
        if not hosts.list_page(connection, HostFilter(state="ready"), limit=1).items:
            raise NoAgentsError("no host is ready", hint="start an agent, or wait until one answers")
    return change


def _write_new_vms(connection: Connection, news: Sequence[tuple[Creation, NewVm]]) -> list[VmChanged | HostlerError]:
    answers: list[VmChanged | HostlerError] = []
    rows: list[OperationRow] = []
    inserted = ledger.insert_many(connection, [new for _, new in news])
    now_ns = max((new.now_ns for _, new in news), default=0)  # what was written together happened together
    for (creation, _), stored in zip(news, inserted, strict=True):
        if isinstance(stored, HostlerError):
            answers.append(stored)
            continue
        row = _operation(stored.vm, "vm.create", creation.caller, creation.ids())
        rows.append(row)
        answers.append(
            _audit_and_respond(connection, stored, row, msgspec.structs.replace(creation.caller, now_ns=now_ns))
        )
    operations.add_many(connection, rows)
    return answers


def power(
    connection: Connection, identity: str, caller: Caller, ids: NewId, *, verb: str, versions: Versions = None
) -> VmChanged:
    """Start, stop, restart, pause or resume a VM."""
    if verb == "start":
        return start(connection, identity, caller, ids, versions=versions)
    return _apply_wish(connection, identity, f"vm.{verb}", "vm.power", POWER[verb], caller, ids, versions)


def start(
    connection: Connection,
    identity: str,
    caller: Caller,
    ids: NewId,
    *,
    is_forced: bool = False,
    versions: Versions = None,
) -> VmChanged:
    """Start a VM; HostsMissingError for a lost VM while hosts are missing, unless an admin forces it."""

    def wish(vm: Vm) -> VmChange:
        return start_vm(connection, vm, caller, is_forced=is_forced)

    return _apply_wish(connection, identity, "vm.start", "vm.power", wish, caller, ids, versions)


def migrate(
    connection: Connection, identity: str, caller: Caller, ids: NewId, *, host: str, versions: Versions = None
) -> VmChanged:
    """Move a running or stopped VM to a host by its name, or to any host with room."""

    def wish(vm: Vm) -> VmChange:
        if state_of(vm) == "pending":  # whatever else is wrong: that may be right once it runs
            stuck = vm.home is not None and vm.spec.is_movable
            hint = "stop it, migrate it while it is stopped, then start it" if stuck else "it can be moved once it runs"
            raise WrongStateError(f"VM {vm.name} waits for a place", hint=hint)
        _check_host(connection, "host", host)
        change = desired_state.migrate(vm, host)
        check_migration(connection, vm, host)
        return change

    return _apply_wish(connection, identity, "vm.migrate", "vm.change", wish, caller, ids, versions)


def cancel_migration(
    connection: Connection, identity: str, caller: Caller, ids: NewId, *, versions: Versions = None
) -> VmChanged:
    """Cancel the migration of a VM; WrongStateError if it is not moving, or has arrived.

    ForbiddenError if its host is draining and the caller may not drain: the drain would never end.
    """

    def wish(vm: Vm) -> VmChange:
        change = desired_state.cancel_move(vm)
        _check_may_stay(connection, vm, caller)
        return change

    return _apply_wish(connection, identity, "vm.cancel-migration", "vm.change", wish, caller, ids, versions)


def edit(
    connection: Connection, identity: str, asked: VmEdit, caller: Caller, ids: NewId, *, versions: Versions = None
) -> VmChanged:
    """Resize a VM, or change its constraints or its protection."""
    stored = _load(connection, identity, caller, "vm.change", versions)
    change = VmChange(vm=stored.vm)
    if asked.spec is not msgspec.UNSET:
        spec = _merged_spec(stored.vm.spec, asked.spec, caller)
        if "strategy" in asked.spec:  # else it keeps what it has, also where its project has one by now
            spec = with_strategy(connection, stored.vm.project, spec)
        if spec != stored.vm.spec:
            check_bounds(connection, stored.vm.project, spec, caller, before=stored.vm.spec)
            if spec.host_name != stored.vm.spec.host_name:  # else it may have left meanwhile
                _check_host(connection, "host_name", spec.host_name)
            check_resize(connection, stored.vm, spec)
            change = desired_state.resize(stored.vm, spec)
    if asked.protected is not msgspec.UNSET:
        protected = desired_state.protect(change.vm, is_protected=asked.protected)
        change = msgspec.structs.replace(change, vm=protected.vm)
    what = _kind_of_edit(stored.vm, change.vm, asked)
    end_overtaken(connection, stored.vm, change.vm, what, caller.now_ns)
    changed = ledger.write(connection, stored, change, actor=caller.actor, now_ns=caller.now_ns)
    return _write_edit(connection, stored, changed, what, asked, caller, ids)


def _kind_of_edit(before: Vm, after: Vm, asked: VmEdit) -> str:
    """Return the kind of an edit, also if it changes nothing."""
    is_resize = after.generation != before.generation
    is_protection = after.is_protected != before.is_protected
    if is_resize or (asked.spec is not msgspec.UNSET and not is_protection) or asked.protected is msgspec.UNSET:
        return "vm.resize"
    return _PROTECTION[asked.protected]


def _write_edit(
    connection: Connection, before: StoredVm, after: StoredVm, what: str, asked: VmEdit, caller: Caller, ids: NewId
) -> VmChanged:
    """Write the operation, and an audit entry for real changes. A repeated resize waits for the pending growth too."""
    vm, patch = after.vm, {} if asked.spec is msgspec.UNSET else asked.spec
    is_resize = vm.generation != before.vm.generation
    waits_again = vm.grow is not None and bool(set(SIZES).intersection(patch))
    row = _operation(vm, what, caller, ids(), is_done=not is_resize and not waits_again)
    row = msgspec.structs.replace(row, body=size_body(patch))
    operations.add_many(connection, [row])
    deeds = ["vm.resize"] if is_resize else []
    if vm.is_protected != before.vm.is_protected:
        deeds.append(_PROTECTION[vm.is_protected])
    for deed in deeds:
        text = resize_text(vm.name, before.vm.spec, vm.spec) if deed == "vm.resize" else ""
        write_audit_note(connection, caller, deed, subject=vm.id, name=vm.name, project=vm.project, text=text)
    return VmChanged(vm=show_vm(after), operation=show_operation(row))


def delete(
    connection: Connection, identity: str, caller: Caller, ids: NewId, *, versions: Versions = None
) -> VmChanged:
    """Delete a VM with its disks."""
    return _apply_wish(connection, identity, "vm.delete", "vm.delete", desired_state.delete, caller, ids, versions)


def give_up(connection: Connection, identity: str, caller: Caller) -> StoredVm:
    """Remove a VM that had to be placed at once and was not decided in time. A placed VM stays."""
    stored = ledger.load(connection, identity)
    if not stored.vm.is_undecided:
        return stored
    change = desired_state.delete(msgspec.structs.replace(stored.vm, is_protected=False))
    return ledger.write(connection, stored, change, actor=caller.actor, now_ns=caller.now_ns)


def find(connection: Connection, identity: str, caller: Caller, permission: str = "vm.read") -> StoredVm:
    """Return a VM by its id, or by project/name; NotFoundError also if the caller may not read it."""
    project, slash, name = identity.partition("/")
    row = vms.find_by_name(connection, project, name) if slash else vms.find(connection, identity)
    if row is None or row.deleted_ns is not None or caller.principal.why_not("vm.read", row.project) is not None:
        raise NotFoundError.of("vm", identity[:100])
    caller.principal.check(permission, row.project)
    return ledger.read_row(row)


def _load(connection: Connection, identity: str, caller: Caller, permission: str, versions: Versions) -> StoredVm:
    stored = find(connection, identity, caller, permission)
    check_version(f"VM {stored.vm.name}", stored.row.version, versions)
    return stored


def _apply_wish(
    connection: Connection,
    identity: str,
    what: str,
    permission: str,
    wish: Callable[[Vm], VmChange],
    caller: Caller,
    ids: NewId,
    versions: Versions,
) -> VmChanged:
    stored = _load(connection, identity, caller, permission, versions)
    change = wish(stored.vm)
    end_overtaken(connection, stored.vm, change.vm, what, caller.now_ns)
    changed = ledger.write(connection, stored, change, actor=caller.actor, now_ns=caller.now_ns)
    return _answer(connection, changed, what, caller, ids)


def _answer(connection: Connection, stored: StoredVm, what: str, caller: Caller, ids: NewId) -> VmChanged:
    """Write the operation and the audit entry, and return the response."""
    row = _operation(stored.vm, what, caller, ids())
    operations.add_many(connection, [row])
    return _audit_and_respond(connection, stored, row, caller)


def _operation(vm: Vm, what: str, caller: Caller, identity: str, *, is_done: bool = False) -> OperationRow:
    is_over = is_done or is_settled(vm, vm.generation)
    return OperationRow(
        id=identity,
        kind=what,
        project=vm.project,
        subject=vm.id,
        actor=caller.actor,
        state="done" if is_over else "pending",
        generation=vm.generation,
        created_ns=caller.now_ns,
        updated_ns=caller.now_ns,
        finished_ns=caller.now_ns if is_over else None,
    )


def _audit_and_respond(connection: Connection, stored: StoredVm, row: OperationRow, caller: Caller) -> VmChanged:
    vm = stored.vm
    write_audit_note(connection, caller, row.kind, subject=vm.id, name=vm.name, project=vm.project)
    return VmChanged(vm=show_vm(stored), operation=show_operation(row))


def _check(spec: VmSpec, caller: Caller) -> None:
    if spec.strategy:
        check_strategy(spec.strategy, caller.strategies)


def _check_host(connection: Connection, place: str, name: str) -> None:
    """Reject a host that does not exist. Future hosts are selected by labels."""
    if name and hosts.find_by_name(connection, name) is None:
        what, hint = Cause("missing", "host", name[:100]), "name an existing host, or none"
        raise InputError(f"{place}: there is no host {name[:100]!r}", hint=hint, cause=what)


def _check_may_stay(connection: Connection, vm: Vm, caller: Caller) -> None:
    """Reject that a VM stays on a draining host, unless the caller may drain."""
    row = hosts.find(connection, vm.home.host) if vm.home is not None else None
    if row is None or not row.is_draining:
        return
    reason = caller.principal.why_not("host.operate")
    if reason is not None:
        hint = f"ask who drains host {row.name} to end that, or to cancel the move ({reason})"
        raise ForbiddenError(f"VM {vm.name} makes way: its host {row.name} is drained", hint=hint)


def _merged_spec(old: VmSpec, patch: dict[str, Any], caller: Caller) -> VmSpec:
    spec = apply_patch("spec", msgspec.to_builtins(old), patch, VmSpec)
    _check(spec, caller)
    return spec
