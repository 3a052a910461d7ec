"""All pages and where they are: ``mount`` adds them to the application that serves REST."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request

from hostler.control.api.context import Context
from hostler.web import (
    fleet_page,
    host_pages,
    host_verbs,
    key_pages,
    live,
    log_pages,
    project_page,
    queue_page,
    vm_creating,
    vm_pages,
    vm_resizing,
    vm_verbs,
    what_if_page,
)
from hostler.web.desk import Desk, Page
from hostler.web.login import Login
from hostler.web.templating import with_query

__all__ = ["mount"]


def mount(app: FastAPI, context: Context) -> None:
    """Add the pages to an application."""
    desk = Desk(context)
    login = Login(desk)
    app.add_route("/static/{name:path}", desk.assets.serve, include_in_schema=False)
    app.add_route("/login", login.show, include_in_schema=False)
    app.add_route("/login", login.enter, methods=["POST"], include_in_schema=False)
    app.add_route("/logout", desk.page(login.leave), methods=["POST"], include_in_schema=False)
    app.add_route("/live", desk.page(live.follow), include_in_schema=False)
    _add_form(app, desk, "/vms/new", vm_creating.ask, vm_creating.do)  # before the VMs: it would be one's id
    for path, show, twin in _PAGES:
        app.add_route(path, desk.page(show, twin), include_in_schema=False)
    _add_form(app, desk, "/keys/{id}/confirm", key_pages.ask, key_pages.do)
    for verb in vm_verbs.VERBS:
        _add_form(app, desk, f"/vms/{{id}}/{verb}", *_FORMS.get(verb, (vm_verbs.ask, vm_verbs.do)), verb=verb)
    for verb in host_verbs.VERBS:
        _add_form(app, desk, f"/hosts/{{name}}/{verb}", host_verbs.ask, host_verbs.do, verb=verb)


def _add_form(app: FastAPI, desk: Desk, path: str, ask: Page, do: Page, *, verb: str = "") -> None:
    for method, page in (("GET", ask), ("POST", do)):
        app.add_route(path, desk.page(page, verb=verb), methods=[method], include_in_schema=False)


def _listed(path: str, *filters: str) -> Callable[[Request], str]:
    """Return the twin of a list: the same filters count there."""
    return lambda request: with_query(path, **{name: request.query_params.get(name, "") for name in filters})


def _plain(path: str) -> Callable[[Request], str]:
    return lambda request: path


def _one(path: str, part: str) -> Callable[[Request], str]:
    return lambda request: f"{path}/{quote(request.path_params[part], safe='')}"


_FORMS: dict[str, tuple[Page, Page]] = {"resize": (vm_resizing.ask, vm_resizing.do)}  # that ask for more than a yes
_PAGES: tuple[tuple[str, Page, Callable[[Request], str] | None], ...] = (
    ("/", fleet_page.show, _plain("/v1/hosts")),
    ("/vms", vm_pages.show_list, lambda request: vm_pages.list_twin(request.query_params)),
    ("/vms/{id}", vm_pages.show_one, _one("/v1/vms", "id")),
    ("/hosts/{name}", host_pages.show, _one("/v1/hosts", "name")),
    ("/keys", key_pages.show, _plain("/v1/keys")),
    ("/queue", queue_page.show, _listed("/v1/queue", "project", "after")),
    ("/what-if", what_if_page.show, None),
    ("/events", log_pages.show_events, _listed("/v1/events", "project", "subject")),
    ("/operations", log_pages.show_operations, _listed("/v1/operations", "project", "state")),
    ("/projects", project_page.show, _plain("/v1/projects")),
)
