"""The page's own files, as they are installed with the package."""

from __future__ import annotations

import hashlib
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class PageFiles:
    """Read once: they are small, and do not change while the service runs."""

    def __init__(self) -> None:
        folder = resources.files("service.view").joinpath("page")
        found = [one for one in folder.iterdir() if one.name.rpartition(".")[2] in _KINDS]
        self._files = {one.name: one.read_bytes() for one in found}
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:24]}"' for name, data in self._files.items()}

    async def index(self, request: Request) -> Response:
        """The page."""
        return self._answer("index.html", request)

    async def one(self, request: Request) -> Response:
        """What the page is made of."""
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404)
        return self._answer(name, request)

    def _answer(self, name: str, request: Request) -> Response:
        # asked for again each time, and answered with nothing where it is the same
        headers = {"Cache-Control": "no-cache", "ETag": self._tags[name]}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(self._files[name], headers={**headers, "Content-Type": _KINDS[name.rpartition(".")[2]]})
