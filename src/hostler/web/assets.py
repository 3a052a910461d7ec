"""Style and scripts, served from memory under names that change with their content, so that browsers keep them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["Assets"]

FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"
_SHORT = "no-cache"


class Assets:
    """All files that pages refer to."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for path in sorted(folder.rglob("*")):
            kind = _TYPES.get(path.suffix)
            if kind is not None:
                content = path.read_bytes()
                name = path.relative_to(folder).as_posix()
                self._files[name] = (content, kind, hashlib.sha256(content).hexdigest()[:12])

    def url(self, name: str) -> str:
        """Return the address of a file; a name that is none is a mistake in a template."""
        return f"/static/{name}?v={self._files[name][2]}"

    async def serve(self, request: Request) -> Response:
        """Answer with a file."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return Response("there is no such file\n", status_code=404, media_type="text/plain")
        content, kind, mark = found
        keep = _FOR_EVER if request.query_params.get("v") == mark else _SHORT
        headers = {"Cache-Control": keep, "ETag": f'"{mark}"', "X-Content-Type-Options": "nosniff"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)
