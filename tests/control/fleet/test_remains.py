"""A host that says it has a VM of another host learns how to let it go, and of what the VM is only what that takes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hostler.agent.messages import Disk, Image, Order
from hostler.control.books import ledger
from hostler.control.books.ledger import StoredVm
from hostler.control.fleet.agents.host_orders import orders_of_all
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.store import Connection, Database, open_database
from hostler.control.store.rows import hosts, projects
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec, ImageSpec, NetworkSpec, VmSpec

SECRET = "told-to-nobody"
DISK = DiskSpec(size="5Gi", image=ImageSpec(url=f"https://images/{SECRET}", sha256="ab" * 32))


def spec(*disks: DiskSpec) -> VmSpec:
    return VmSpec(
        cpu="2",
        memory="3Gi",
        disks=list(disks),
        kernel=f"/boot/{SECRET}",
        initrd=f"/boot/{SECRET}",
        kernel_arguments=f"password={SECRET}",
        network=NetworkSpec(kind="bridge", bridge=SECRET),
        when_lost="keep" if disks else "restart",
    )


def order_of_a_stranger(database: Database, wanted: VmSpec) -> Order:
    """Return the orders of a host that reports a VM without an allocation there."""

    def work(connection: Connection) -> StoredVm:
        projects.insert(connection, ProjectRow(name="default"))
        hosts.insert(connection, HostRow(id="thief", name="thief", state="ready"))
        change = desired_state.create("vm", "default", SECRET, wanted)
        return ledger.insert(connection, change, actor="tester", now_ns=1)

    database.submit(work).result()
    given = database.read_now(lambda one: orders_of_all(one, {"thief": HostBody(remains=("vm",))}))["thief"]
    return given[0].order


def test_a_claim_to_a_vm_that_is_to_be_removed_yields_no_word_of_its_spec(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'control.db'}")) as database:
        order = order_of_a_stranger(database, spec())
    assert order == Order(vm="vm", generation=1, power="absent", when_silent="stop")


def test_claimed_vm_with_kept_disks_reveals_sizes_only(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'control.db'}")) as database:
        order = order_of_a_stranger(database, spec(DISK))
    sizes = {"cpu_count": 2, "cpu_millis": 2000, "memory_bytes": 3 * 2**30}
    disk = Disk(size_bytes=5 * 2**30, image=Image())
    assert order == Order(vm="vm", generation=1, power="stopped", disks=(disk,), **sizes), "agents count by them"
