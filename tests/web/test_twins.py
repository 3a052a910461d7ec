"""What the pages of a VM, a host and the projects show is at the addresses of REST that they link."""

from __future__ import annotations

import re
from typing import Any

from tests.wait import wait_until
from tests.web.conftest import Window
from tests.web.service_in_thread import WebService


def twins(window: Window, path: str) -> dict[str, Any]:
    """Return all that a page links as JSON at its bottom, by address."""
    assert window.open(path) == 200
    links = window.page.locator(".foot a[type='application/json']").evaluate_all(
        "links => links.map(one => one.getAttribute('href'))"
    )
    answers = {link: window.page.request.get(window.service.url + link) for link in links}
    assert all(answer.status == 200 for answer in answers.values()), answers
    return {link: answer.json() for link, answer in answers.items()}


def texts(window: Window, selector: str) -> list[str]:
    return [" ".join(text.split()) for text in window.page.locator(selector).all_text_contents()]


def test_a_vm_its_decision_and_its_events_are_linked(reader: Window, made: dict[str, str]) -> None:
    identity = made["giant"]
    told = twins(reader, f"/vms/{identity}")
    assert list(told) == [f"/v1/vms/{identity}{part}" for part in ("", "/decision", "/events")]
    vm, decision, events = told.values()
    assert vm["why"] in (reader.page.locator(".message:not(#stale)").first.text_content() or "")
    near = texts(reader, "#near tbody th")
    assert near
    assert set(near) <= {one["host"] for one in decision["verdicts"]}
    shown = reader.page.locator("section[aria-labelledby=h-events]").text_content() or ""
    assert events["items"]
    assert all(one["text"] in shown for one in events["items"])


def test_a_host_its_vms_and_what_a_scheduler_sees_are_linked(
    reader: Window, made: dict[str, str], service: WebService
) -> None:
    found = service.vm(made["web-01"]).vm.home
    assert found is not None
    told = twins(reader, f"/hosts/{found.name}")
    assert list(told) == [f"/v1/hosts/{found.host}{part}" for part in ("", "/vms", "/scheduling")]
    host, vms, scheduling = told.values()
    assert host["name"] == found.name
    assert texts(reader, "section[aria-labelledby=h-vms] tbody th a") == [vm["name"] for vm in vms["items"]]
    assert "web-01" in [vm["name"] for vm in vms["items"]]
    shown = reader.page.locator("section[aria-labelledby=h-scheduling] pre").text_content()
    assert shown is not None
    assert shown.strip() == scheduling["text"].strip()


def test_projects_with_their_vms_and_quotas_are_linked(reader: Window) -> None:
    told = twins(reader, "/projects")
    assert list(told) == ["/v1/projects", "/v1/quotas"]
    projects, quotas = (page["items"] for page in told.values())
    counts = [re.sub(r"^(\S+) (\d+) VMs?$", r"\1=\2", text) for text in texts(reader, "h2")]
    assert counts == [f"{one['name']}={one['vms']}" for one in projects]
    assert dict(one.split("=") for one in counts)["shop"] == "6"
    [quota] = [one for one in quotas if one["project"] == "shop"]
    shown = " ".join(texts(reader, "section[aria-labelledby=p-shop] td"))
    for amount in (quota["used"]["cpu"], quota["min"]["cpu"], quota["max"]["cpu"], "200 GiB"):
        assert amount in shown
    assert quota["max"]["memory"] == "200Gi"


def test_arriving_vm_is_on_the_page_and_in_the_twin_of_its_host(reader: Window, service: WebService) -> None:
    moving = service.create("traveller")
    service.until_decided([moving])
    service.report(moving)
    answer = reader.page.request.post(
        f"{service.url}/v1/vms/{moving}/migrate", headers={"Authorization": f"Bearer {service.key}"}
    )
    assert answer.status == 202, answer.text()
    wait_until(lambda: service.vm(moving).vm.other is not None)
    target = service.vm(moving).vm.other
    assert target is not None
    vms = twins(reader, f"/hosts/{target.name}")[f"/v1/hosts/{target.host}/vms"]
    assert "traveller" in [vm["name"] for vm in vms["items"]]
    assert "lands here" in (reader.page.locator("section[aria-labelledby=h-vms]").text_content() or "")


def test_the_page_of_events_links_those_that_it_shows(reader: Window) -> None:
    [told] = twins(reader, "/events").values()
    shown = texts(reader, "#region tbody tr")
    assert shown
    assert len(told["items"]) >= len(shown)
    newest_first = [one["text"] for one in reversed(told["items"])]
    assert all(text in row for text, row in zip(newest_first, shown, strict=False))
