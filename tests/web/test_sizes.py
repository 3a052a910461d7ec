"""Sizes on pages are readable, whatever number a spec has for them."""

from __future__ import annotations

import httpx
import pytest

from hostler.control.schemas import QuotaCreate
from hostler.control.services.tenancy import quotas
from hostler.control.vms.spec import DiskSpec
from tests.wait import wait_until
from tests.web.service_in_thread import WebService

ODD = "1.3Gi"  # no whole number of any unit, so a spec has it as bytes


@pytest.fixture(scope="module")
def odd(service: WebService) -> str:
    """A VM of odd sizes that runs on a host."""
    service.add_hosts(1)
    vm = service.create("odd", memory=ODD, disks=[DiskSpec(size=ODD)])
    service.until_decided([vm])
    service.report(vm)
    assert service.vm(vm).vm.spec.memory.isdigit()
    return vm


def cell(text: str, css: str) -> str:
    return f'<td class="{css}">{text}</td>'


@pytest.mark.parametrize("path", ["/vms", "/hosts/host-00"])
def test_a_list_of_vms_shows_sizes_in_readable_units(path: str, client: httpx.Client, odd: str) -> None:
    page = client.get(path).text
    assert cell("1.3 GiB", "number") in page
    assert cell("1.3 GiB", "number wide") in page
    assert "1395864" not in page


def test_the_page_of_a_vm_tells_its_sizes_in_readable_units(client: httpx.Client, odd: str) -> None:
    page = client.get(f"/vms/{odd}").text
    assert "<dd>2, 1.3 GiB</dd>" in page
    assert "<dd>1.3 GiB on its host</dd>" in page


def test_the_form_of_a_resize_tells_the_size_in_readable_units(client: httpx.Client, odd: str) -> None:
    assert "2 CPU and 1.3 GiB of memory" in client.get(f"/vms/{odd}/resize").text


def test_projects_and_hosts_tell_what_they_may_have_in_the_same_units(
    service: WebService, client: httpx.Client, odd: str
) -> None:
    limits = QuotaCreate(project="default", min={"cpu": "500m"}, max={"memory": "3Gi"})
    service.write(lambda connection: quotas.create(connection, limits, service.caller(), {}))
    wanted = [cell(text, "number") for text in ("0.5", "3 GiB", "1.3 GiB")]
    wait_until(
        lambda: all(one in client.get("/projects").text for one in wanted)
    )  # once the engine has heard of the quota
    service.add_hosts(1, first=7)
    admin = {"Authorization": f"Bearer {service.key}"}
    assert client.patch("/v1/hosts/host-07", json={"reserve": {"memory": "2Gi"}}, headers=admin).is_success
    page = client.get("/hosts/host-07").text
    assert "<dd>memory 2 GiB</dd>" in page


def test_the_block_for_schedulers_says_what_its_unit_is(client: httpx.Client, odd: str) -> None:
    page = client.get("/hosts/host-00").text
    heading, _, block = page.partition("Scheduling</h2>")[2].partition("<pre")
    assert "GB means GiB" in heading
    assert "Memory: 1.3 GB/64.0 GB" in block
