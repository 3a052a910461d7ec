"""The OpenAPI 3.1 description of all routes. Schemas come from the structs themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hostler._version import __version__
from hostler.control.api.requests.problems import PROBLEM_TYPE, TITLES
from hostler.control.api.requests.route import Route
from hostler.control.schemas import Problem

__all__ = ["describe"]

_REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"\{(\w+)\}")
_JSON = "application/json"
_ALWAYS = (400, 408, 421, 429, 500, 503)
_RETRY = (429, 503)
Data = dict[str, Any]

_HEADERS: Data = {
    "X-Request-Id": {"description": "The id of the request in the service's log.", "schema": {"type": "string"}}
}
_RETRY_AFTER: Data = {
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer", "minimum": 1}}
}
_ETAG: Data = {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}
_TEXT = (
    "VMs on hypervisor hosts. A request is stored (202) and applied later. Errors are "
    "application/problem+json with a stable code. An Idempotency-Key makes a change happen once: its scope is the "
    "caller, the method and the path, its life a day; the same key with another body is rejected (422). ETag and "
    "If-Match prevent lost updates (412). Bodies are at most 1 MiB."
)


def describe(routes: Sequence[Route]) -> Data:
    """Return the OpenAPI description of routes."""
    kinds = list(dict.fromkeys([Problem, *_kinds(routes)]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = {str(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: Data = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hostler control plane", "version": __version__, "description": _TEXT},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {str(status): _problem(status) for status in sorted(TITLES)},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: hk_…"},
                "agent": {"type": "http", "scheme": "bearer", "description": "An agent's credential: ha_…"},
            },
        },
    }


def _kinds(routes: Iterable[Route]) -> Iterable[Any]:
    for route in routes:
        if route.body is not None:
            yield route.body
        for answer in route.answers.values():
            kind = answer[0] if isinstance(answer, tuple) else answer
            if kind is not None and not isinstance(kind, str) and kind is not dict:
                yield kind


def _operation(route: Route, schemas: Data) -> Data:
    name = re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_")
    found: Data = {
        "operationId": name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description_of(route),
        "parameters": [*_parts(route), *_queries(route), *_headers(route)],
        "responses": _responses(route, schemas),
        "security": [] if route.door == "none" else [{route.door: []}],
    }
    if route.body is not None:
        content = {_JSON: {"schema": schemas[str(route.body)]}}
        found["requestBody"] = {"required": route.is_body_needed, "content": content}
    return found


def _description_of(route: Route) -> str:
    needs = f"Needs the permission {route.permission}." if route.permission else ""
    return " ".join(part for part in (route.description, needs) if part)


def _parts(route: Route) -> list[Data]:
    schema = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[A-Za-z0-9_.-]+$"}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in _PART.findall(route.path)]


def _queries(route: Route) -> list[Data]:
    _, components = msgspec.json.schema_components([route.query], ref_template=_REFERENCE)
    properties: Data = components[route.query.__name__].get("properties", {})
    found = []
    for name, schema in properties.items():
        text = schema.pop("description", "")
        found.append({"name": name, "in": "query", "required": False, "description": text, "schema": _plain(schema)})
    return found


def _plain(schema: Data) -> Data:
    """Remove null from the types of a query parameter: an absent parameter is left out of the query."""
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            return {**options[0]}
    if None in schema.get("enum", ()):
        schema = {**schema, "enum": [one for one in schema["enum"] if one is not None]}
    return {key: value for key, value in schema.items() if key != "default" or value is not None}


def _headers(route: Route) -> list[Data]:
    found = []
    if route.has_match:
        text = "The ETag that the caller has read; 412 if it changed since."
        schema: Data = {"type": "string", "pattern": '^"[0-9]{1,18}"$'}
        found.append({"name": "If-Match", "in": "header", "required": False, "description": text, "schema": schema})
    if route.is_repeatable:
        text = "Makes the request happen once, however often it is sent."
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9_.-]+$"}
        found.append(
            {"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": schema}
        )
    return found


def _responses(route: Route, schemas: Data) -> Data:
    found = {str(status): _answer(route, status, answer, schemas) for status, answer in route.answers.items()}
    refusals = {*_ALWAYS, *route.refusals}
    if route.door != "none":
        refusals |= {401, 403}
    if route.body is not None:
        refusals |= {413, 415}
    if route.has_match:
        refusals.add(412)
    if route.is_repeatable:
        refusals.add(422)
    for status in sorted(refusals):
        found.setdefault(str(status), {"$ref": f"#/components/responses/{status}"})
    return found


def _answer(route: Route, status: int, answer: Any, schemas: Data) -> Data:  # noqa: ANN401
    texts = {200: "Done.", 201: "Made.", 202: "Written down; it will happen.", 204: "Done; nothing to say."}
    headers = {**_HEADERS, **(_ETAG if route.has_etag else {})}
    found: Data = {"description": texts.get(status, TITLES.get(status, "")), "headers": headers}
    parts = answer if isinstance(answer, tuple) else (answer,)
    content: Data = {}
    for part in parts:
        if isinstance(part, str):
            content[part] = {"schema": {"type": "string"}}
        elif part is dict:
            content[_JSON] = {"schema": {"type": "object"}}
        elif part is not None:
            content[_JSON] = {"schema": schemas[str(part)]}
    if content:
        found["content"] = content
    return found


def _problem(status: int) -> Data:
    headers = {**_HEADERS, **(_RETRY_AFTER if status in _RETRY else {})}
    schema = {"$ref": _REFERENCE.format(name="Problem")}
    return {"description": TITLES[status], "headers": headers, "content": {PROBLEM_TYPE: {"schema": schema}}}
