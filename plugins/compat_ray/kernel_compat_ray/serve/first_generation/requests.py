"""The requests that handlers get, like Flask's. Requests over HTTP are Werkzeug's, as Flask's are."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    import werkzeug.wrappers


async def flask_request(request: Request) -> werkzeug.wrappers.Request:
    """Return the same request, read to its end, as Werkzeug's."""
    from werkzeug.wrappers import Request as WerkzeugRequest

    return WerkzeugRequest(environ_of(request.scope, await request.body()))


def environ_of(scope: Any, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333) of a request with this ASGI scope."""
    server = scope.get("server") or ("localhost", 80)
    raw = unquote_to_bytes((scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0])
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        # Handlers see the whole path, as they did when each endpoint was a route of one server.
        "SCRIPT_NAME": "",
        "PATH_INFO": raw.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    environ["CONTENT_LENGTH"] = str(len(body))
    return environ


class CallRequest:
    """Is a handler's request for a call of a handle: `args` are named arguments, `data` and `json` the first one."""

    method = "CALL"
    path = ""
    headers: dict[str, str] = {}  # noqa: RUF012
    form: dict[str, str] = {}  # noqa: RUF012
    files: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, data: Any, named: dict[str, Any]) -> None:
        self.args = named
        self.data = data

    @property
    def json(self) -> Any:
        """The first argument of the call, which a handler reads as the body."""
        return self.data

    def get_json(self, *args: Any, **kwargs: Any) -> Any:
        """Return the first argument."""
        return self.data

    def get_data(self, *args: Any, **kwargs: Any) -> Any:
        """Return the first argument."""
        return self.data

    def __repr__(self) -> str:
        return f"CallRequest({self.data!r}, {self.args!r})"


def plain_result(result: Any) -> Any:
    """Return what a handler returned; a response of Werkzeug or Flask as one that Serve can send."""
    if hasattr(result, "get_wsgi_response") and hasattr(result, "get_data"):
        return Response(result.get_data(), result.status_code, {**result.headers})
    return result
