"""Whatever the description lets agents say, by one that joined: no server error, answers as described.

What is sent at random gets no further than the first check. So most of each message is true here, and what the
description allows stands in some of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.agent.messages import JOIN_PATH, ORDERS_PATH, REGISTER_PATH, REPORT_PATH, Join, Register, Report
from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.requests.route import Route
from tests.control.api.listening_service import ListeningService, listening_service
from tests.control.api.service_in_process import GIB
from tests.control.api.test_rest_fuzz import CHECKS, described, name_of

OF_AGENTS = [route for route in ALL_ROUTES if route.path in (JOIN_PATH, REGISTER_PATH, REPORT_PATH, ORDERS_PATH)]
OF_OTHERS = [route for route in ALL_ROUTES if route not in OF_AGENTS and route.door != "none"]
FIELDS = sorted({*Join.__struct_fields__, *Register.__struct_fields__, *Report.__struct_fields__})
SIZE = {"cpu_millis": 4000, "memory_bytes": 8 * GIB, "disk_bytes": 100 * GIB}


class Agent:
    """The agent of a host, which has joined, and restarts before each message."""

    def __init__(self, service: ListeningService, client: httpx.Client) -> None:
        self._client = client
        self._service = service
        self._number = count()
        self.credential = ""
        self.credential = str(self._post(JOIN_PATH, self.join("talker"))["credential"])
        self._post(REGISTER_PATH, self.registration())
        spec = {"cpu": 1, "memory": "1Gi", "host_name": "talker"}
        self.vm = str(self._ask("/v1/vms", {"name": "talked-of", "spec": spec})["vm"]["id"])

    def join(self, name: str) -> dict[str, Any]:
        """Return what a new agent of a host says first."""
        return {"token": self._ask("/v1/tokens", {"host_name": name})["secret"], "name": name}

    def registration(self) -> dict[str, Any]:
        """Return what it says when it starts."""
        run = f"run-{next(self._number)}"
        return {"boot": "b", "agent": run, "version": "1", "driver": "fake", "capabilities": {}, "size": SIZE}

    def report(self) -> dict[str, Any]:
        """Restart, and return what it says next."""
        said = self.registration()
        told = self._post(REGISTER_PATH, said)
        self.credential = told["credential"] or self.credential
        return {"boot": said["boot"], "agent": said["agent"], "epoch": told["epoch"], "sequence": 1}

    def true(self, path: str) -> dict[str, Any]:
        """Return a message that is true and complete."""
        if path == JOIN_PATH:
            return self.join(f"other-{next(self._number)}")
        return self.registration() if path == REGISTER_PATH else self.report()

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._post(path, body, self._service.secrets["admin"])

    def _post(self, path: str, body: dict[str, Any], secret: str = "") -> dict[str, Any]:
        secret = secret or self.credential
        answer = self._client.post(path, json=body, headers={"Authorization": f"Bearer {secret}"} if secret else {})
        assert answer.is_success, answer.text
        told: dict[str, Any] = answer.json()
        return told


@pytest.fixture(scope="module")
def service() -> Iterator[ListeningService]:
    with listening_service() as listening:
        yield listening


@pytest.fixture(scope="module")
def agent(service: ListeningService) -> Iterator[Agent]:
    with httpx.Client(base_url=service.address, timeout=120) as client:
        yield Agent(service, client)


def about(vm: str, said: Any) -> Any:
    """Return something that is said of VMs as said of one that is there."""
    if isinstance(said, list):
        return [{**one, "vm": vm} if isinstance(one, dict) and "vm" in one else one for one in said]
    return said


def send(service: ListeningService, agent: Agent, route: Route, examples: int) -> set[int]:
    """Say so much by one way; return the statuses that came back."""
    seen: set[int] = set()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        case=described()[route.path][route.method].as_strategy(),
        kept=st.sets(st.sampled_from(FIELDS)),
        is_of_ours=st.booleans(),
    )
    def attempt(case: schemathesis.Case, kept: set[str], is_of_ours: bool) -> None:
        true = agent.true(route.path)
        if route.method == "GET":
            asked = {name: value for name, value in (case.query or {}).items() if name in ("from", "epoch") and kept}
            case.query = {"epoch": true["epoch"], **asked, "wait_s": 0.01}
        elif isinstance(case.body, dict):
            said = {name: case.body[name] for name in case.body if name in kept}
            case.body = {**true, **({name: about(agent.vm, one) for name, one in said.items()} if is_of_ours else said)}
        headers = {} if route.path == JOIN_PATH else {"Authorization": f"Bearer {agent.credential}"}
        response = case.call(base_url=service.address, headers=headers)
        assert response.status_code != 500, service.in_process.said[-1]
        case.validate_response(response, checks=CHECKS)
        seen.add(response.status_code)
        if route.path == REGISTER_PATH and response.status_code == 200:
            agent.credential = response.json().get("credential") or agent.credential

    attempt()
    assert [line for line in service.in_process.said if " failed" in line] == []
    return seen


@pytest.mark.parametrize("route", OF_AGENTS, ids=name_of)
def test_nothing_that_an_agent_says_breaks_the_service(service: ListeningService, agent: Agent, route: Route) -> None:
    assert seen_well(send(service, agent, route, 40))


@pytest.mark.parametrize("route", OF_OTHERS, ids=name_of)
def test_an_agent_gets_in_by_no_door_but_its_own(service: ListeningService, agent: Agent, route: Route) -> None:
    path = route.path.format_map(dict.fromkeys(("id", "name", "project"), "a"))
    headers = {"Authorization": f"Bearer {agent.credential}"}
    body: dict[str, object] | None = {} if route.method in ("POST", "PUT", "PATCH") else None
    answer = httpx.request(route.method, f"{service.address}{path}", json=body, headers=headers, timeout=120)
    assert answer.status_code in (401, 403), answer.text


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("route", OF_AGENTS, ids=name_of)
def test_nothing_that_an_agent_says_for_long_breaks_the_service(
    service: ListeningService, agent: Agent, route: Route
) -> None:
    assert seen_well(send(service, agent, route, 500))


def seen_well(seen: set[int]) -> bool:
    """Say whether some of it was taken in, not only refused."""
    return bool(seen & {200, 204})
