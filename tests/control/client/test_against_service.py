"""The client against a real service, and against a network that loses answers on the way back."""

from __future__ import annotations

import pytest

from hostler.control.client import Client, ServerTarget
from hostler.control.client.errors import NotAllowedError, ServerConflictError, ServerNotFoundError, UnreachableError
from hostler.control.schemas import (
    GangCreate,
    ProjectCreate,
    QuotaCreate,
    ReservationCreate,
    TokenCreate,
    VmCreate,
    VmEdit,
)
from hostler.control.vms.spec import VmSpec
from hostler.errors import UnknownNameError
from tests.cli.control.control_plane_thread import plane
from tests.control.client.lossy_proxy import lossy_proxy

SPEC = VmSpec(cpu=1, memory="1Gi")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A control plane without hosts: nothing is placed there."""
    with plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture
def client(served):
    with served.client() as found:
        yield found


def test_a_create_whose_answer_got_lost_makes_one_vm(served, client):
    with lossy_proxy(served.address) as between, Client(ServerTarget(server=between.address, key=served.key)) as far:
        made = far.vms.create(VmCreate(name="once", spec=SPEC))
    assert len(between.lost) == 1
    assert made.vm.id.encode() in between.lost[0]
    assert [vm.id for vm in client.vms.list(name="once")] == [made.vm.id]


def test_a_restart_whose_answer_got_lost_is_one_restart(served, client):
    vm = client.vms.create(VmCreate(name="restarted", spec=SPEC)).vm
    client.vms.act(vm.id, "stop")
    before = client.vms.get(vm.id).generation
    with (
        lossy_proxy(served.address, losses=2) as between,
        Client(ServerTarget(server=between.address, key=served.key)) as far,
    ):
        far.vms.act(vm.id, "start")
    assert len(between.lost) == 2
    assert client.vms.get(vm.id).generation == before + 1


def test_a_deletion_whose_answer_got_lost_is_no_error(served, client):
    client.projects.create(ProjectCreate(name="gone"))
    with lossy_proxy(served.address) as between, Client(ServerTarget(server=between.address, key=served.key)) as far:
        far.projects.delete("gone")
    with pytest.raises(ServerNotFoundError):
        client.projects.get("gone")
    with pytest.raises(ServerNotFoundError):
        client.projects.delete("gone")


def test_a_token_whose_answer_got_lost_is_not_made_twice(served, client):
    before = len(list(client.tokens.list()))
    with (
        lossy_proxy(served.address) as between,
        Client(ServerTarget(server=between.address, key=served.key)) as far,
        pytest.raises(UnreachableError),
    ):
        far.tokens.create(TokenCreate())
    assert len(list(client.tokens.list())) == before + 1


def test_pages_hold_all_of_a_list_once(served, client):
    client.projects.create(ProjectCreate(name="many"))
    for number in range(7):
        client.vms.create(VmCreate(name=f"vm-{number}", project="many", spec=SPEC))
    with Client(ServerTarget(server=served.address, key=served.key), page=3) as slow:
        assert [vm.name for vm in slow.vms.list(project="many")] == [f"vm-{number}" for number in range(7)]
        assert len(list(slow.vms.list(project="many", limit=4))) == 4


def test_gangs_reservations_and_quotas_are_followed_over_pages(served, client):
    for project in ("one", "two", "three"):
        client.projects.create(ProjectCreate(name=project))
        client.quotas.create(QuotaCreate(project=project))
    for name in ("a", "b", "c"):
        client.gangs.create(GangCreate(project="one", name=name))
        client.reservations.create(ReservationCreate(project="one", name=name, amounts={"cpu": 1}))
    with Client(ServerTarget(server=served.address, key=served.key), page=2) as slow:
        assert [quota.project for quota in slow.quotas.list()] == ["one", "three", "two"]
        assert [gang.name for gang in slow.gangs.list(project="one")] == ["a", "b", "c"]
        assert [kept.name for kept in slow.reservations.list()] == ["a", "b", "c"]


def test_events_come_while_a_client_listens(served, client):
    vm = client.vms.create(VmCreate(name="heard", spec=SPEC)).vm
    followed = client.follow(subject=vm.id, after=0)
    kinds = []
    with served.client() as other:
        for event in followed:
            kinds.append(event.kind)
            if event.kind == "vm.create":
                other.vms.delete(vm.id)
            if event.kind == "vm.delete":
                break
    followed.close()
    assert kinds.index("vm.create") < kinds.index("vm.delete")


def test_a_change_of_something_that_changed_meanwhile_is_refused(client):
    vm = client.vms.create(VmCreate(name="stale", spec=SPEC)).vm
    client.vms.edit(vm.id, VmEdit(protected=True))
    with pytest.raises(ServerConflictError) as caught:
        client.vms.edit(vm.id, VmEdit(protected=False), version='"1"')
    assert caught.value.code == "stale_version"


def test_waiting_ends_when_the_time_is_over(client):
    change = client.vms.create(VmCreate(name="waiting", spec=SPEC))
    assert client.wait(change.operation.id, 1).state == "pending"


def test_a_vm_is_found_by_what_people_call_it(client):
    vm = client.vms.create(VmCreate(name="found", spec=SPEC)).vm
    for word, project in (("found", "default"), ("default/found", "other"), (vm.id, "other")):
        assert client.vms.find(word, project).id == vm.id
    with pytest.raises(UnknownNameError):
        client.vms.find("found", "other")


def test_a_key_that_nobody_knows_is_refused(served):
    with served.client("hk_nobody") as stranger, pytest.raises(NotAllowedError) as caught:
        stranger.whoami()
    assert caught.value.code == "unauthenticated"
