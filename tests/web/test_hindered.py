"""The first page lists VMs that their hosts cannot make, although nothing has failed for good."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from hostler.agent.messages import Trouble
from tests.web.service_in_thread import WebService, run_service_in_thread

ALL_IS_WELL = "All VMs are healthy."
NO_IMAGE = Trouble(kind="blocked", code="no_image", message="there is no image debian here")


@pytest.fixture
def service(tmp_path) -> Iterator[WebService]:
    """A service that knows nothing of other tests."""
    with run_service_in_thread(tmp_path) as found:
        yield found


def test_a_vm_whose_image_is_missing_is_not_as_it_should_be_until_it_runs(
    service: WebService, client: httpx.Client
) -> None:
    service.add_hosts(1)
    vm = service.create("web")
    service.until_decided([vm])
    assert ALL_IS_WELL in client.get("/").text
    service.report(vm, "absent", NO_IMAGE)
    page = client.get("/").text
    assert f'id="bad-{vm}"' in page
    assert '<td class="nowrap"><a href="/hosts/host-00">host-00</a></td>' in page
    assert NO_IMAGE.message in page
    assert ALL_IS_WELL not in page
    service.report(vm)
    assert ALL_IS_WELL in client.get("/").text


def test_a_vm_that_runs_but_cannot_be_paused_is_not_as_it_should_be(service: WebService, client: httpx.Client) -> None:
    service.add_hosts(1)
    vm = service.create("web")
    service.until_decided([vm])
    service.report(vm)
    answer = httpx.post(f"{service.url}/v1/vms/{vm}/pause", headers={"Authorization": f"Bearer {service.key}"})
    assert answer.status_code == 202, answer.text
    service.report(vm, "running", Trouble(kind="transient", code="monitor", message="the monitor does not answer"))
    assert service.vm(vm).row.state == "running"
    assert "the monitor does not answer" in client.get("/").text
