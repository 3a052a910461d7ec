"""A caller who may read one project never sees a name of another, in no answer and on no page.

The other project has nothing that is not called by a telling name. All that REST describes is asked, and all pages are
looked at: a new address is tested here without being listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from hostler.web.routes import _PAGES, mount
from tests.control.api.service_in_process import SMALL, InProcessService, open_service

TELLING = "zeus"
THEIRS = "zeusland"
HOST = "kubernetes.io/hostname"
ORIGIN = {"Origin": "http://localhost"}
NOT_OURS = ("/metrics", "/agent/")  # doors of their own


async def made(service: InProcessService, path: str, **body: Any) -> None:
    answer = await service.ask("POST", path, json=body)
    assert answer.status_code == 201, answer.text


async def filled(service: InProcessService) -> dict[str, str]:
    """Fill two hosts; return the VMs of red by their names: ``low`` has made way, ``much`` is over its quota."""
    await service.add_hosts("a", "b", cpu=4)
    await made(service, "/v1/projects", name="red", max_priority=10)
    await made(service, "/v1/projects", name=THEIRS, max_priority=100)
    await made(service, "/v1/quotas", project=THEIRS, min={"cpu": 60}, max={"cpu": 60})
    low = (await service.create("low", project="red", spec={"cpu": "2", "host_selector": {HOST: "b"}})).json()["vm"][
        "id"
    ]
    await service.settle()
    await made(
        service, "/v1/reservations", project=THEIRS, name="zeus-launch", amounts={"cpu": 2}, host_selector={HOST: "a"}
    )
    await made(service, "/v1/gangs", project=THEIRS, name="zeus-crew", min_count=1)
    crew = {"gang": "zeus-crew", "amounts": {"cpu": "500m"}, "host_selector": {HOST: "a"}}
    await made(service, "/v1/reservations", project=THEIRS, name="zeus-two", **crew)
    labels = {"app": "zeus-web"}
    apart = [{"topology": HOST, "selector": {}, "namespaces": ["red"]}]
    theirs = {"cpu": "3", "priority": 50, "host_name": "b", "labels": labels, "anti_affinity": apart}
    for name, project, spec in (
        ("zeus-web", THEIRS, theirs),
        ("zeus-bare", "default", {"cpu": "500m", "host_name": "a"}),
        ("zeus-member", THEIRS, {"cpu": "500m", "gang": "zeus-crew", "host_name": "a"}),
        ("zeus-waits", THEIRS, {"cpu": "40"}),
    ):
        assert (await service.create(name, project=project, spec=spec)).is_success
    await service.settle()
    wide = (await service.create("wide", project="red", spec={"cpu": "3"})).json()["vm"]["id"]
    await service.settle()
    await made(service, "/v1/quotas", project="red", min={"cpu": 6}, max={"cpu": 6})
    much = (await service.create("much", project="red", spec={"cpu": "3", "priority": 5})).json()["vm"]["id"]
    await service.settle()
    return {"low": low, "wide": wide, "much": much}


def addresses(described: Mapping[str, Any], vms: Mapping[str, str]) -> Iterator[str]:
    """Return all that can be read, of red's things and of theirs."""
    for path, methods in described["paths"].items():
        if "get" not in methods or path.startswith(NOT_OURS):
            continue
        if path.startswith("/v1/vms/{id}"):
            yield from (path.replace("{id}", identity) for identity in vms.values())
        elif path.startswith("/v1/hosts/{id}"):
            yield from (path.replace("{id}", name) for name in ("a", "b"))
        else:
            yield path.replace("{project}", "red").replace("{name}", "red").replace("{id}", "none")


async def pages(service: InProcessService, secret: str, vms: Mapping[str, str]) -> list[httpx.Response]:
    """Log in and look at all pages."""
    transport = httpx.ASGITransport(app=service.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=ORIGIN) as client:
        assert (await client.post("/login", data={"key": secret})).status_code == 303
        found = []
        for path, *_ in _PAGES:
            for identity, name in ((vms["low"], "a"), (vms["wide"], "b"), (vms["much"], "a")):
                found.append(await client.get(path.replace("{id}", identity).replace("{name}", name)))
        asked = {"project": "red", "cpu": "3", "memory": "1Gi", "count": "1", "name": "more"}
        found.append(await client.get("/what-if", params=asked))
        return found


async def test_a_reader_of_one_project_meets_no_name_of_another() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        vms = await filled(service)
        viewer, editor = await service.key("viewer", "red"), await service.key("editor", "red")
        described = (await service.ask("GET", "/openapi.json")).json()
        answers = [await service.as_key(viewer, "GET", path) for path in addresses(described, vms)]
        spec = {**SMALL, "cpu": "3", "priority": 10}
        plan = {"vms": [{"project": "red", "name": "more", "spec": spec, "count": 3}], "without_hosts": ["b"]}
        answers += [
            await service.as_key(viewer, "POST", "/v1/plan", json=plan),
            await service.as_key(viewer, "POST", "/v1/candidates", json={"project": "red", "spec": spec}),
            await service.as_key(
                editor,
                "POST",
                "/v1/vms",
                params={"wait": 30},
                json={"project": "red", "name": "more", "spec": {**SMALL, "cpu": "3"}, "on_unplaceable": "fail"},
            ),
        ]
        assert answers[-1].json()["code"] == "insufficient_resources", answers[-1].text
        answers += await pages(service, viewer, vms)
        leaks = [
            f"{one.request.url}: …{one.text[max(at - 150, 0) : at + 50]}"
            for one in answers
            if (at := one.text.lower().find(TELLING)) >= 0
        ]
        assert leaks == []
        assert sum(one.is_success for one in answers) > 40, "or there was nothing to see"
        told = "".join(one.text for one in answers)
        assert "a reservation of another project" in told
        assert "a VM of another project" in told
        assert "it makes room for a VM of higher priority" in told


async def test_an_administrator_meets_them() -> None:
    async with open_service() as service:
        vms = await filled(service)
        told = (await service.ask("GET", f"/v1/vms/{vms['wide']}/decision")).text
        assert "zeusland/zeus-launch" in told
        assert "a reservation of another project" not in told
