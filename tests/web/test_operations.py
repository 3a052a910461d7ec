"""The page of operations names who asked for something, as events do."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.web.service_in_thread import WebService, run_service_in_thread


@pytest.fixture
def service(tmp_path) -> Iterator[WebService]:
    """A service that knows nothing of other tests."""
    with run_service_in_thread(tmp_path) as found:
        yield found


def test_an_operation_is_by_the_name_of_a_key_not_by_its_id(service: WebService, client: httpx.Client) -> None:
    key = service.make_key("editor", "default")
    asked = {"name": "web", "project": "default", "spec": {"cpu": "1", "memory": "1Gi"}}
    answer = httpx.post(f"{service.url}/v1/vms", json=asked, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 202, answer.text
    page = client.get("/operations").text
    assert ">key editor</td>" in page
    assert answer.json()["operation"]["actor"] not in page
