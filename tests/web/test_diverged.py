"""Pages of a replica that cannot follow the log, and explanations on pages within the limit of their project."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from hostler.control.access.limits import Rate
from hostler.control.api.requests.question_limits import QuestionLimits
from hostler.control.store.errors import LogWentBackError
from tests.web.service_in_thread import WebService, run_service_in_thread

NOTICE = "This replica cannot follow the log and decides nothing."


@pytest.fixture
def service(tmp_path) -> Iterator[WebService]:
    """A service that knows nothing of other tests."""
    with run_service_in_thread(tmp_path) as found:
        yield found


def test_first_page_of_a_diverged_replica_says_what_to_do(service: WebService, client: httpx.Client) -> None:
    assert NOTICE not in client.get("/").text
    service.books.trouble = "entry 9 of the log is not followed"
    page = client.get("/").text
    assert NOTICE in page
    assert "hostler rebuild" in page


def test_first_page_says_that_the_database_lost_commits(service: WebService, client: httpx.Client) -> None:
    """A rebuild would not help there, so the page does not name it."""
    service.database.history._went_back = LogWentBackError("entry 7 was committed", hint="stop all replicas")
    page = client.get("/").text
    assert "The database lost changes that were committed" in page
    assert "hostler rebuild" not in page


def test_vm_page_explains_within_the_limit_of_its_project(service: WebService, client: httpx.Client) -> None:
    """A page is no way around the limit that REST has; the rest of it is shown."""
    service.add_hosts(1)
    vm = service.create("web")
    service.until_decided([vm])
    service.context.asking = QuestionLimits(Rate(1))
    assert "Policy <strong>" in client.get(f"/vms/{vm}").text
    page = client.get(f"/vms/{vm}")
    assert page.status_code == 200
    assert "No explanation: more explanations than project default may ask for" in page.text
