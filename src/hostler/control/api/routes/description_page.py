"""The API description as a plain page without scripts or external resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["page_of"]

_STYLE = """
:root { color-scheme: light dark; --soft: color-mix(in srgb, currentColor 65%, transparent);
  --line: color-mix(in srgb, currentColor 18%, transparent); --back: color-mix(in srgb, currentColor 6%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1.5rem auto 4rem; padding: 0 1rem; }
a { color: light-dark(#1c5b86, #86bde4); }
code, .path { font-family: ui-monospace, monospace; font-size: .93em; overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 .5rem; font-size: 1.2rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: .6rem .8rem; background: var(--back); }
details { border-top: 1px solid var(--line); padding: .4rem 0; scroll-margin-top: 1rem; }
details[open] { padding-bottom: 1rem; }
summary { cursor: pointer; display: grid; grid-template-columns: 4.5rem minmax(0, 26rem) minmax(0, 1fr); gap: 0 .8rem; }
summary .what { color: var(--soft); }
.method { font: 600 .87rem/1.7 ui-monospace, monospace; }
.POST, .PUT, .PATCH { color: light-dark(#7a4a00, #eabb6e); }
.DELETE { color: light-dark(#9c2525, #f29b94); }
.GET { color: light-dark(#1b6440, #86d3a6); }
h3 { font-size: .93rem; margin: 1rem 0 .2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th { text-align: left; font-weight: 500; color: var(--soft); border-bottom: 1px solid var(--line); }
td, th { vertical-align: top; padding: .2rem .8rem .2rem 0; }
td:first-child { width: 14rem; }
td:nth-child(2) { width: 14rem; }
.soft { color: var(--soft); }
@media (max-width: 46rem) {
  summary { grid-template-columns: 4.5rem minmax(0, 1fr); }
  summary .what { grid-column: 1 / -1; }
  td:first-child, td:nth-child(2) { width: auto; }
}
"""
_PLACES = {"path": "In the path", "query": "In the query", "header": "Headers"}


def page_of(description: Mapping[str, Any]) -> str:
    """Return the page: a table of contents, the routes by subject, and the objects that they take and return."""
    info = description["info"]
    tags = [tag["name"] for tag in description["tags"]]
    links = "".join(f'<a href="#tag-{escape(tag)}">{_title(tag)}</a>' for tag in tags)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
        f'<p><a href="/">To the dashboard</a></p><h1>{escape(info["title"])} {escape(info["version"])}</h1>',
        *(f"<p>{sentence}</p>" for sentence in _paragraphs(info["description"])),
        "<p>Send a key as <code>Authorization: Bearer hk_…</code>. A description for programs: "
        '<a href="/openapi.json">openapi.json</a>.</p>',
        f'<nav aria-label="Contents">{links}<a href="#objects">Objects</a></nav><main>',
    ]
    for tag in tags:
        parts.append(f'<h2 id="tag-{escape(tag)}">{_title(tag)}</h2>')
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                if tag in operation["tags"]:
                    parts.append(_operation(path, method.upper(), operation))
    parts.append('<h2 id="objects">Objects</h2>')
    schemas = description["components"]["schemas"]
    parts += [_schema(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join([*parts, "</main></body></html>"])


def _title(tag: str) -> str:
    return "VMs" if tag == "vms" else escape(tag.capitalize())


def _paragraphs(text: str) -> list[str]:
    """Return a long text as paragraphs of one sentence each."""
    sentences = text.split(". ")
    return [escape(one if one.endswith(".") else f"{one}.") for one in sentences]


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<p>{escape(operation['description'])}</p>"] if operation["description"] else []
    for place, title in _PLACES.items():
        rows = [
            _row(one["name"], one.get("description", ""), _type(one["schema"]))
            for one in operation["parameters"]
            if one["in"] == place
        ]
        parts.append(_table(title, "Name", rows))
    if "requestBody" in operation:
        kind = _type(operation["requestBody"]["content"]["application/json"]["schema"])
        parts.append(f"<h3>Body</h3><p>{kind}</p>")
    rows = []
    for status, response in operation["responses"].items():
        if "$ref" not in response:
            kinds = [_type(one["schema"]) for one in response.get("content", {}).values()]
            rows.append(_row(status, response.get("description", ""), " or ".join(kinds) or "nothing"))
    parts.append(_table("Answers", "Status", rows))
    errors = ", ".join(status for status, one in operation["responses"].items() if "$ref" in one)
    parts.append(f'<p class="soft">Errors: {errors}, each a <a href="#Problem">Problem</a>.</p>')
    name = escape(operation["operationId"])
    return (
        f'<details id="{name}"><summary><span class="method {method}">{method}</span>'
        f'<span class="path">{escape(path)}</span> <span class="what">{escape(operation["summary"])}</span></summary>'
        f"{''.join(parts)}</details>"
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        _row(
            key,
            value.get("description", ""),
            _type(value) + ("" if key in needed else ' <span class="soft">or absent</span>'),
        )
        for key, value in schema.get("properties", {}).items()
    ]
    text = schema.get("description", "")
    return (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"<p>{escape(text)}</p>{_table('', 'Field', rows)}</details>"
    )


def _table(title: str, first: str, rows: list[str]) -> str:
    if not rows:
        return ""
    heading = f"<h3>{title}</h3>" if title else ""
    head = f'<thead><tr><th scope="col">{first}</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>'
    return f'{heading}<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _row(name: str, text: str, kind: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{escape(text)}</td></tr>"


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema in a few words, with links to structs."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return escape(" | ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        parts = schema.get("prefixItems") or [schema.get("items") or {}]
        return f"list of {' and '.join(_type(part) for part in parts)}"
    return escape(str(schema.get("type", "anything")))
