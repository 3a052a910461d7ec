"""Calls for hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hostler.control.client.pages import list_items
from hostler.control.client.wire import Wire, path_of
from hostler.control.schemas import AllowTeardown, Confirm, Host, HostEdit, Page, Scheduling

__all__ = ["HostVerb", "Hosts"]

HostVerb = Literal["cordon", "uncordon", "drain", "undrain"]


class Hosts:
    """Calls for hosts. Each host is named by its name or id."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, state: str = "", limit: int = 0) -> Iterator[Host]:
        """Return the hosts, page by page."""
        return list_items(self._wire, "/v1/hosts", Page[Host], {"state": state}, limit=limit)

    def get(self, host: str) -> Host:
        """Return a host. If it is draining, the VMs that cannot leave are included."""
        return self._wire.read(path_of("hosts", host), Host)

    def scheduling(self, host: str) -> Scheduling:
        """Return the view of a host for schedulers."""
        return self._wire.read(path_of("hosts", host, "scheduling"), Scheduling)

    def act(self, host: str, verb: HostVerb) -> Host:
        """Cordon, drain, uncordon or undrain a host."""
        return self._wire.change("POST", path_of("hosts", host, verb), Host)

    def force_offline(self, host: str, *, confirm: str) -> Host:
        """Treat a host as offline at once; its VMs stay assigned to it."""
        return self._confirmed(host, "force-offline", confirm)

    def confirm_dead(self, host: str, *, confirm: str) -> Host:
        """Confirm that nothing runs on a host, so that its VMs may start elsewhere."""
        return self._confirmed(host, "confirm-dead", confirm)

    def allow_teardown(self, host: str, count: int) -> Host:
        """Let a host remove many VMs at once."""
        body = AllowTeardown(confirm=count)
        return self._wire.change("POST", path_of("hosts", host, "allow-teardown"), Host, body=body)

    def rotate_credential(self, host: str) -> Host:
        """Give a host's agent a new credential, at its next report."""
        return self._wire.change("POST", path_of("hosts", host, "rotate-credential"), Host)

    def revoke_credential(self, host: str) -> Host:
        """Revoke the credential of a host's agent; its VMs keep running."""
        return self._wire.change("POST", path_of("hosts", host, "revoke-credential"), Host)

    def edit(self, host: str, edit: HostEdit, *, version: str = "") -> Host:
        """Change labels, taints, overcommitment or reserve."""
        return self._wire.change("PATCH", path_of("hosts", host), Host, body=edit, version=version)

    def delete(self, host: str, *, confirm: str) -> None:
        """Delete a host."""
        self._wire.remove(path_of("hosts", host), {"confirm": confirm})

    def _confirmed(self, host: str, verb: str, name: str) -> Host:
        return self._wire.change("POST", path_of("hosts", host, verb), Host, body=Confirm(confirm=name))
