"""Whatever the description allows, sent by anybody: no server error, answers as described, nothing overstepped.

The administrator comes last: little of what there was is left then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe
from hostler.control.api.requests.route import Route
from tests.control.api.listening_service import ListeningService, listening_service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_ENDING = {"/v1/keys/{id}", "/v1/keys/{id}/rotate"}  # with the right id they would end the keys of this test
_OTHERS = ("viewer", "editor of red", "nobody")


@pytest.fixture(scope="module")
def service() -> Iterator[ListeningService]:
    with listening_service() as listening:
        yield listening


@cache
def described() -> OpenApiSchema:
    return schemathesis.openapi.from_dict(describe(ALL_ROUTES))


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def send(service: ListeningService, route: Route, who: str, examples: int) -> set[int]:
    """Send a number of requests as one caller, to existing and missing objects; return their statuses."""
    schema, secret = described(), service.secrets[who]
    there = next((there for begin, there in service.there.items() if route.path.startswith(f"{begin}/")), {})
    seen: set[int] = set()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=schema[route.path][route.method].as_strategy(), is_there=st.booleans())
    def attempt(case: schemathesis.Case, is_there: bool) -> None:
        for name in ("wait", "wait_s"):  # nobody here carries anything out, and the test is to end
            if case.query and name in case.query:
                case.query[name] = 0.01
        if is_there and there:
            case.path_parameters = dict(there)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        response = case.call(base_url=service.address, headers=headers)
        assert response.status_code != 500, service.in_process.said[-1]
        case.validate_response(response, checks=CHECKS)
        seen.add(response.status_code)

    attempt()
    assert [line for line in service.in_process.said if " failed" in line] == []
    return seen


def check_others(service: ListeningService, route: Route, who: str, examples: int) -> None:
    """A caller with few permissions gets no more than those, and changes nothing else."""
    without = "red" if who == "editor of red" else ""
    before = service.at_rest.pop(who, None) or service.run(service.belongings(without=without))
    seen = send(service, route, who, examples)
    after = service.run(service.belongings(without=without))
    assert after == before
    service.at_rest = {who: after}  # of everybody else's tests none has come between
    if who == "nobody" and route.door != "none":
        assert all(400 <= status < 500 for status in seen), seen
    if who == "viewer" and route.is_change and route.permission != "plan.run":
        assert all(status >= 400 for status in seen), seen


@pytest.mark.parametrize("route", ALL_ROUTES, ids=name_of)
@pytest.mark.parametrize("who", _OTHERS)
def test_nothing_that_others_send_breaks_or_oversteps_anything(
    service: ListeningService, route: Route, who: str
) -> None:
    check_others(service, route, who, 2 if who == "nobody" else 3)


@pytest.mark.parametrize("route", [route for route in ALL_ROUTES if route.path not in _ENDING], ids=name_of)
def test_nothing_that_an_administrator_sends_breaks_the_service(service: ListeningService, route: Route) -> None:
    send(service, route, "admin", 6)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("route", ALL_ROUTES, ids=name_of)
@pytest.mark.parametrize("who", _OTHERS)
def test_nothing_that_others_send_for_long_oversteps_anything(
    service: ListeningService, route: Route, who: str
) -> None:
    check_others(service, route, who, 50)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("route", [route for route in ALL_ROUTES if route.path not in _ENDING], ids=name_of)
def test_nothing_that_an_administrator_sends_for_long_breaks_the_service(
    service: ListeningService, route: Route
) -> None:
    send(service, route, "admin", 200)
