"""Projects, and how much of their quotas is used."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from hostler.control.schemas import Project, Quota
from hostler.control.services.tenancy import projects, quotas
from hostler.control.store import Connection
from hostler.engine import Engine
from hostler.model import Amounts, parse_resource
from hostler.web.live_updates import live_link
from hostler.web.page_requests import PageRequest
from hostler.web.texts import percent_used, spec_amount_text

__all__ = ["show", "usage_by_tenant"]

_MOST = 200


class QuotaLine(msgspec.Struct, frozen=True):
    """One resource of a quota."""

    resource: str
    used: str
    least: str
    most: str
    percent: int | None


class ProjectOverview(msgspec.Struct, frozen=True):
    """A project as the page shows it."""

    name: str
    description: str
    strategy: str
    vms: int
    lines: list[QuotaLine]


async def show(visit: PageRequest) -> Response:
    """Show the projects that the visitor may see."""
    caller = visit.caller
    used, _ = await visit.context.books.ask(usage_by_tenant)

    def work(connection: Connection) -> list[ProjectOverview]:
        page = projects.list_page(connection, caller, after="", limit=_MOST)
        sees_quotas = caller.principal.why_not("quota.read", caller.principal.project) is None
        limits = quotas.list_all(connection, caller, used).items if sees_quotas else []
        by_name = {quota.project: quota for quota in limits}
        return [_shown(one, by_name.get(one.name)) for one in page.items]

    return await visit.render(
        "projects.html",
        title="Projects",
        twin="/v1/projects",
        more_twins=["/v1/quotas"] if visit.may("quota.read", visit.principal.project) else [],
        live=live_link(),
        projects=await visit.read(work),
    )


def usage_by_tenant(engine: Engine) -> Mapping[str, Amounts]:
    """Return what each project has, as the engine counts it for quotas."""
    return {tenant: tuple(sorted(amounts.items())) for tenant, amounts in engine.view.quotas.used.items()}


def _shown(project: Project, quota: Quota | None) -> ProjectOverview:
    lines = _lines(quota) if quota is not None else []
    return ProjectOverview(project.name, project.description, project.strategy, project.vms, lines)


def _lines(quota: Quota) -> list[QuotaLine]:
    names = sorted({*quota.min, *quota.max})
    return [_line(name, quota.used.get(name, "0"), quota.min.get(name, ""), quota.max.get(name, "")) for name in names]


def _line(name: str, used: str, least: str, most: str) -> QuotaLine:
    percent = None
    if most:
        limit = parse_resource(name, most)
        percent = percent_used(parse_resource(name, used), limit) if limit else 100
    used, least, most = (spec_amount_text(value, name) if value else "" for value in (used, least, most))
    return QuotaLine(name, used, least, most, percent)
