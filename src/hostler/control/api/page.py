"""The description as one plain page: no script, nothing from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["page_of"]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, .path { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
details { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .4rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }
"""


def page_of(description: Mapping[str, Any]) -> str:
    """Return the page."""
    info = description["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        "<p>For programs: <a href=/openapi.json>openapi.json</a>.</p>",
    ]
    for tag in description["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts.append(_operation(path, method, operation))
    parts.append("<h2>shapes</h2>")
    schemas = description["components"]["schemas"]
    parts += [_schema(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = [
        _row(f"{one['name']} ({one['in']})", one.get("description", ""), _type(one["schema"]))
        for one in operation["parameters"]
    ]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        rows.append(_row("body", "", _type(content["schema"])))
    for status, response in operation["responses"].items():
        kinds = [_type(one["schema"]) for one in response.get("content", {}).values()]
        if kinds or "description" in response:
            rows.append(_row(status, response.get("description", ""), ", ".join(kinds)))
    refusals = ", ".join(status for status, one in operation["responses"].items() if "$ref" in one)
    return (
        f"<details><summary><span class=method>{method.upper()}</span> <span class=path>{escape(path)}</span> "
        f"{escape(operation['summary'])}</summary><p>{escape(operation['description'])}</p>"
        f"<table>{''.join(rows)}</table><p>Refusals: {refusals}.</p></details>"
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        _row(f"{key}{' *' if key in needed else ''}", value.get("description", ""), _type(value))
        for key, value in schema.get("properties", {}).items()
    ]
    return (
        f"<details id={escape(name)}><summary><code>{escape(name)}</code></summary>"
        f"<p>{escape(schema.get('description', ''))}</p><table>{''.join(rows)}</table></details>"
    )


def _row(name: str, text: str, kind: str) -> str:
    return f"<tr><td><code>{escape(name)}</code><td>{kind}<td>{escape(text)}"


def _type(schema: Mapping[str, Any]) -> str:
    """Write a schema in a few words, with links to shapes."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href=#{name}>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return escape(" | ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        parts = schema.get("prefixItems") or [schema.get("items") or {}]
        return f"list of {' and '.join(_type(part) for part in parts)}"
    return escape(str(schema.get("type", "anything")))
