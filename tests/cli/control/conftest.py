"""One control plane for the tests of its commands, and a project of its own for each test."""

from __future__ import annotations

from itertools import count

import pytest

from tests.wait import wait_until

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A control plane with three hosts. It is imported here: other tests of this folder do without."""
    from tests.cli.control.command_process import secret
    from tests.cli.control.control_plane_thread import plane

    folder = tmp_path_factory.mktemp("plane")
    with plane(folder, "node-1", "node-2", "node-3") as running:
        secret(folder / "admin.key", running.key)
        yield running


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Give a control plane with nothing in it, which no host ever joined."""
    from tests.cli.control.command_process import secret
    from tests.cli.control.control_plane_thread import plane

    with plane(tmp_path) as running:
        monkeypatch.setenv("HOSTLER_SERVER", running.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "admin.key", running.key)))
        yield running


@pytest.fixture
def project(served, monkeypatch):
    """An empty project that commands mean when none is named; what a test leaves there is removed."""
    name = f"team-{next(_NUMBERS)}"
    monkeypatch.setenv("HOSTLER_SERVER", served.address)
    monkeypatch.setenv("HOSTLER_KEY_FILE", str(served.folder / "admin.key"))
    monkeypatch.setenv("HOSTLER_PROJECT", name)
    from hostler.control.schemas import ProjectCreate, VmEdit

    with served.client() as client:
        client.projects.create(ProjectCreate(name=name))
        yield name
        for vm in client.vms.list(project=name):
            if vm.protected:
                client.vms.edit(vm.id, VmEdit(protected=False))
            if vm.power != "absent":
                client.vms.delete(vm.id)
        wait_until(lambda: not list(client.vms.list(project=name)))
