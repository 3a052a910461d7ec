"""The pages that a visitor may see, in the order of the menu, with their keys."""

from __future__ import annotations

import msgspec

from hostler.control.access import Principal

__all__ = ["MenuItem", "first_page", "menu_for"]


class MenuItem(msgspec.Struct, frozen=True):
    """One page of the menu. ``key`` is its access key."""

    title: str
    path: str
    key: str
    permission: str
    is_here: bool = False


_ITEMS = (
    MenuItem("Fleet", "/", "1", "host.read"),
    MenuItem("VMs", "/vms", "2", "vm.read"),
    MenuItem("Queue", "/queue", "3", "vm.read"),
    MenuItem("What if", "/what-if", "4", "plan.run"),
    MenuItem("Events", "/events", "5", "event.read"),
    MenuItem("Operations", "/operations", "6", "operation.read"),
    MenuItem("Projects", "/projects", "7", "project.read"),
)
_BELOW = {"/": ("/hosts", "/keys")}


def menu_for(principal: Principal, path: str) -> list[MenuItem]:
    """Return the pages that a visitor may open; the current one is marked."""
    return [
        msgspec.structs.replace(item, is_here=_is_within(path, item.path))
        for item in _ITEMS
        if principal.why_not(item.permission, principal.project) is None
    ]


def first_page(principal: Principal) -> str:
    """Return the first page of a visitor. A key of one project may not see hosts."""
    items = menu_for(principal, "")
    return items[0].path if items else "/vms"


def _is_within(path: str, item: str) -> bool:
    return path == item or any(path.startswith(f"{one}/") for one in (item, *_BELOW.get(item, ())) if one != "/")
