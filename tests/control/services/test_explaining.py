"""Sentences of the engine in the words of those who have VMs."""

from __future__ import annotations

import pytest

from hostler.control.services.explaining import plain


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("the guest itself, or what it refers to, changes", "the VM itself, or what it refers to, changes"),
        ("a guest leaves or shrinks, or a bind fails", "a VM leaves or shrinks, or a placement fails"),
        ("a guest of a tenant with a quota leaves", "a VM of a project with a quota leaves"),
        ("no room even without guests of lower priority", "no room even without VMs of lower priority"),
        ("its tenant's quota has no room for it", "its project's quota has no room for it"),
        ("no guest", "no VM"),
        ("reservation guest ends", "reservation guest ends"),
        ("move the guest-1 away", "move the guest-1 away"),
    ],
)
def test_guests_are_vms_and_tenants_projects_but_names_stay(said: str, told: str) -> None:
    assert plain(said) == told
