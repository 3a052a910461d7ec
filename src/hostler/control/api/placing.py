"""Creating a VM, and the other answer for one that must be placed at once: which refusal comes first, and when."""

from __future__ import annotations

from functools import partial

import msgspec

from hostler.control.api.calls import Call, new_id
from hostler.control.api.shapes import VmChanged, VmCreate
from hostler.control.api.waiting import is_refused, verdict
from hostler.control.books.books import NoLeaderError
from hostler.control.books.ledger import Stored
from hostler.control.books.reading import QUOTA_FULL
from hostler.control.services import standing, vms
from hostler.control.services.discretion import readable
from hostler.control.services.errors import InsufficientResourcesError, NoAgentsError, NoVerdictError
from hostler.control.services.explaining import answer_refusal
from hostler.control.services.questions import would_be
from hostler.control.services.showing import show_vm
from hostler.control.store import Connection, operations
from hostler.errors import HostlerError

__all__ = ["create_or_refuse"]


async def create_or_refuse(call: Call, asked: VmCreate) -> VmChanged:
    """Write a VM down; one that must be placed at once is waited for, and refused where nobody has room."""
    meters, strategy = call.context.meters, asked.spec.strategy or "default"

    if asked.on_unplaceable == "wait":
        changed = await _written_down(call, asked)
        meters.placement(strategy, "accepted")
        return changed
    try:
        changed = await _placed_or_refused(call, asked, await _written(call, asked))
    except InsufficientResourcesError:
        meters.placement(strategy, "insufficient_resources")
        raise
    except (NoAgentsError, NoVerdictError, NoLeaderError) as error:
        meters.placement(strategy, error.code)
        raise
    meters.placement(strategy, "placed")
    return changed


async def _written_down(call: Call, asked: VmCreate) -> VmChanged:
    most = call.context.settings.vms_each
    if call.has_key:
        return await call.write_once(
            lambda connection: vms.create(connection, asked, call.caller, new_id, most=most), VmChanged
        )
    creation = vms.Creation(asked=asked, caller=call.caller, ids=new_id, most=most)
    return await call.context.database.write_jointly(vms.create_many, creation)


async def _written(call: Call, asked: VmCreate) -> VmChanged:
    """Write the VM down if somebody is there to decide about it."""
    call.principal.check("vm.create", asked.project)
    would_be("checked", asked.project, asked.name, asked.spec)  # what can never be right comes before who is there
    books = call.context.books
    if books.trouble:
        hint = "ask another replica, or let it wait: on_unplaceable=wait; the service's log says what is wrong"
        raise NoVerdictError("this replica cannot follow the log, so it sees no decision", hint=hint)
    if not books.is_ready:
        raise NoVerdictError("the service has not read its books yet", hint="try again in a moment")
    if not books.is_leader:
        await books.leader()
    return await _written_down(call, asked)


async def _placed_or_refused(call: Call, asked: VmCreate, changed: VmChanged) -> VmChanged:
    identity = changed.vm.id
    stored = await verdict(call, identity)
    if stored is None:
        stored = await call.write(lambda connection: vms.give_up(connection, identity, call.caller))
        if stored.vm.is_gone:
            await _fail(call, changed.operation.id, "nobody decided in time")
            hint = "try again; where that goes on, look at who leads"
            raise NoVerdictError(f"nobody decided within {call.context.settings.verdict_s:g} s", hint=hint)
    if is_refused(stored.vm):
        await _fail(call, changed.operation.id, stored.vm.why)
        raise await _refusal(call, asked, stored)
    return msgspec.structs.replace(changed, vm=show_vm(stored))


async def _refusal(call: Call, asked: VmCreate, stored: Stored) -> InsufficientResourcesError:
    """Return the refusal, with what every host says."""
    uid = f"refused-{stored.vm.id}"
    facts = would_be(uid, asked.project, asked.name, stored.vm.spec)
    books, may_read, standings = call.context.books, readable(call.principal), await call.read(standing.read)
    question = partial(
        answer_refusal, facts=facts, uid=uid, project=asked.project, may_read=may_read, standings=standings
    )
    decision = await books.explain(question)
    message, cure = f"no host has room for VM {asked.name}: {stored.vm.why}", "free some room"
    if stored.vm.why.startswith(QUOTA_FULL):
        message = f"VM {asked.name} is not placed: {stored.vm.why}"
        cure = f"see 'hostler quota get {asked.project}', which an admin may raise"
    return InsufficientResourcesError(
        message,
        hint=f"ask for less, {cure}, or let it wait: on_unplaceable=wait",
        decision=msgspec.json.decode(decision),
    )


async def _fail(call: Call, operation: str, why: str) -> None:
    """Note in the operation that it came to nothing; the refusal itself does not depend on it."""

    def work(connection: Connection) -> None:
        row = operations.get(connection, operation)
        body = msgspec.json.encode({"error": why})
        finished = row.finished_ns or call.now_ns
        operations.save(connection, msgspec.structs.replace(row, state="failed", body=body, finished_ns=finished))

    try:
        await call.write(work)
    except HostlerError as error:
        call.context.tell(f"request {call.request_id}: {error.message}")
