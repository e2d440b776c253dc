"""The paths that a proxy answers itself, below `/-/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kernel_serve.traffic.endpoint_table import EndpointTable
from kernel_spec.metric_text import CONTENT_TYPE


async def system_answer(
    scope: dict[str, Any], send: Any, table: EndpointTable, metrics: Callable[[], Awaitable[str]]
) -> None:
    """Answer a request for one of them; `metrics()` returns the text of all metrics."""
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1000})
    elif scope["path"] == "/-/routes":
        await _answer(send, 200, table.text(), b"application/json")
    elif scope["path"] == "/-/healthz":
        await _answer(send, 200, "success")
    elif scope["path"] == "/-/metrics":
        await _answer(send, 200, await metrics(), CONTENT_TYPE)
    else:
        await _answer(send, 404, f"there is no {scope['path']}; there are /-/routes, /-/healthz and /-/metrics")


async def _answer(send: Any, status: int, text: str, kind: bytes = b"text/plain; charset=utf-8") -> None:
    body = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
