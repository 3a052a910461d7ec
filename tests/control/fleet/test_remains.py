"""A host that says it has a VM of another host learns how to let it go, and of what the VM is only what that takes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hostler.agent.messages import Disk, Image, Order
from hostler.control.books import ledger
from hostler.control.books.ledger import Stored
from hostler.control.fleet.hosts import HostBody
from hostler.control.fleet.ordering import orders_of_all
from hostler.control.store import Connection, Database, hosts, open_database, projects
from hostler.control.store.hosts import HostRow
from hostler.control.store.projects import ProjectRow
from hostler.control.vms import wishes
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
    """Return what a host is ordered that claims a VM of which nothing is booked there."""

    def work(connection: Connection) -> Stored:
        projects.insert(connection, ProjectRow(name="default"))
        hosts.insert(connection, HostRow(id="thief", name="thief", state="ready"))
        change = wishes.create("vm", "default", SECRET, wanted)
        return ledger.insert(connection, change, actor="tester", now_ns=1)

    database.submit(work).result()
    given = database.read_now(lambda one: orders_of_all(one, {"thief": HostBody(remains=("vm",))}))["thief"]
    return given[0].order


def test_a_claim_to_a_vm_that_is_to_be_removed_yields_no_word_of_its_spec(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'control.db'}")) as database:
        order = order_of_a_stranger(database, spec())
    assert order == Order(vm="vm", generation=1, power="absent", when_silent="stop")


def test_a_claim_to_a_vm_whose_disks_are_kept_yields_its_sizes_and_nothing_else(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'control.db'}")) as database:
        order = order_of_a_stranger(database, spec(DISK))
    sizes = {"cpu_count": 2, "cpu_millis": 2000, "memory_bytes": 3 * 2**30}
    disk = Disk(size_bytes=5 * 2**30, image=Image())
    assert order == Order(vm="vm", generation=1, power="stopped", disks=(disk,), **sizes), "agents count by them"
