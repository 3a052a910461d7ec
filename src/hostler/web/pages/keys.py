"""API keys that a restore disabled: the list of them, and the question before one is accepted again.

For administrators of all projects, as the command ``hostler key confirm`` is. The service checks that again, and the
form carries the token of its session as every other form does (``PageRequest.form``).
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.control.api.requests.problems import status_of
from hostler.control.schemas import Key
from hostler.control.services.tenancy import keys
from hostler.control.store import Connection
from hostler.errors import HostlerError
from hostler.web.page_requests import PageRequest

__all__ = ["ask", "do", "show"]

_PAGE = "/keys"


async def show(visit: PageRequest) -> Response:
    """Show the keys that wait for confirmation."""
    found = await visit.read(lambda connection: keys.list_unconfirmed(connection, visit.caller))
    return await visit.render("keys.html", title="Unconfirmed keys", twin="/v1/keys", keys=found)


async def ask(visit: PageRequest) -> Response:
    """Ask before a key is accepted again."""
    return await _question(visit, None)


async def do(visit: PageRequest) -> Response:
    """Accept a key again, and go back to the others."""
    await visit.form()
    identity = visit.part("id")
    try:
        await visit.write(lambda connection, caller: keys.confirm_key(connection, identity, caller))
    except HostlerError as error:
        return await _question(visit, error)
    visit.context.authenticator.forget(identity)
    return visit.go(f"{_PAGE}?done=key-confirm")


async def _question(visit: PageRequest, error: HostlerError | None) -> Response:
    visit.principal.check("key.confirm")
    identity = visit.part("id")

    def work(connection: Connection) -> Key:
        return keys.get_key(connection, identity, visit.caller)

    key = await visit.read(work)
    return await visit.render(
        "question.html",
        title=f"Confirm key {key.name}?",
        twin=f"/v1/keys/{key.id}",
        status=status_of(error) if error is not None else 200,
        error=error,
        lines=(
            f"Key {key.id} is {key.role} in {f'project {key.project}' if key.project else 'all projects'}.",
            "A restore brought it back. Anyone who has it can use it again.",
            "Confirm it only if it was not revoked after the backup was made.",
        ),
        action=f"{_PAGE}/{key.id}/confirm",
        targets=None,
        confirm="",
        danger=True,
        button="Confirm",
        back=_PAGE,
    )
