"""All pages and where they are: ``mount`` adds them to the application that serves REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.errors import RouteNotFoundError
from hostler.web import live_updates
from hostler.web.jinja_environment import with_query
from hostler.web.page_requests import Page, PageHandler, PageRequest
from hostler.web.pages import fleet, hosts, keys, log, projects, queue, vm_actions, vm_creation, vm_resize, vms, what_if
from hostler.web.pages.login import Login, OneTimeLogin

__all__ = ["mount"]

Handler = Callable[[Request, Exception], Awaitable[Response]]


def mount(app: Starlette, context: ServiceContext, *, one_time: OneTimeLogin | None = None) -> None:
    """Add the pages to an application; ``one_time`` lets the owner of ``hostler dev up`` in by an address."""
    desk = PageHandler(context)
    login = Login(desk, one_time)
    if one_time is not None:
        app.add_route("/login/once/{token}", login.enter_once, include_in_schema=False)
    app.add_route("/static/{name:path}", desk.assets.serve, include_in_schema=False)
    app.add_route("/login", login.show, include_in_schema=False)
    app.add_route("/login", login.enter, methods=["POST"], include_in_schema=False)
    app.add_route("/logout", desk.page(login.leave), methods=["POST"], include_in_schema=False)
    app.add_route("/live", desk.page(live_updates.stream_updates), include_in_schema=False)
    _add_form(app, desk, "/vms/new", vm_creation.ask, vm_creation.do)  # before the VMs: it would be one's id
    for path, show, twin in _PAGES:
        app.add_route(path, desk.page(show, twin), include_in_schema=False)
    _add_form(app, desk, "/keys/{id}/confirm", keys.ask, keys.do)
    for verb in vm_actions.VERBS:
        _add_form(app, desk, f"/vms/{{id}}/{verb}", *_FORMS.get(verb, (vm_actions.ask, vm_actions.do)), verb=verb)
    for verb in hosts.VERBS:
        _add_form(app, desk, f"/hosts/{{name}}/{verb}", hosts.ask, hosts.do, verb=verb)
    _answer_unknown_pages(app, desk)


def _add_form(app: Starlette, desk: PageHandler, path: str, ask: Page, do: Page, *, verb: str = "") -> None:
    for method, page in (("GET", ask), ("POST", do)):
        app.add_route(path, desk.page(page, verb=verb), methods=[method], include_in_schema=False)


def _answer_unknown_pages(app: Starlette, desk: PageHandler) -> None:
    """Show browsers a page with the menu at an unknown address; programs get a problem as before."""
    as_problem: Handler = app.exception_handlers[HTTPException]
    as_page = desk.page(_reject_unknown)

    async def answer(request: Request, error: Exception) -> Response:
        is_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
        if is_page and not request.url.path.startswith("/v1/"):
            return await as_page(request)
        return await as_problem(request, error)

    app.add_exception_handler(404, answer)


async def _reject_unknown(visit: PageRequest) -> Response:
    path = visit.request.url.path[:200]
    raise RouteNotFoundError(f"there is no page at {path}", hint="choose a page from the menu")


def _listed(path: str, *filters: str) -> Callable[[Request], str]:
    """Return the twin of a list: the same filters count there."""
    return lambda request: with_query(path, **{name: request.query_params.get(name, "") for name in filters})


def _plain(path: str) -> Callable[[Request], str]:
    return lambda request: path


def _one(path: str, part: str) -> Callable[[Request], str]:
    return lambda request: f"{path}/{quote(request.path_params[part], safe='')}"


_FORMS: dict[str, tuple[Page, Page]] = {"resize": (vm_resize.ask, vm_resize.do)}  # that ask for more than a yes
_PAGES: tuple[tuple[str, Page, Callable[[Request], str] | None], ...] = (
    ("/", fleet.show, _plain("/v1/hosts")),
    ("/vms", vms.show_list, lambda request: vms.rest_list_url(request.query_params)),
    ("/vms/{id}", vms.show_one, _one("/v1/vms", "id")),
    ("/hosts/{name}", hosts.show, _one("/v1/hosts", "name")),
    ("/keys", keys.show, _plain("/v1/keys")),
    ("/queue", queue.show, _listed("/v1/queue", "project", "after")),
    ("/what-if", what_if.show, None),
    ("/events", log.show_events, _listed("/v1/events", "project", "subject")),
    ("/operations", log.show_operations, _listed("/v1/operations", "project", "state")),
    ("/projects", projects.show, _plain("/v1/projects")),
)
