"""Turn what user code returns into an HTTP response."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncIterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from kernel_serve.errors import DeploymentError
from kernel_serve.replica.user_code import UserCode


async def to_response(result: Any, code: UserCode) -> Response:
    """Return a Starlette response for a result: text, bytes, a stream of either, a response, or a value for JSON.

    Raises DeploymentError for any other value.
    """
    if isinstance(result, str):
        return PlainTextResponse(result)
    if isinstance(result, Response):
        return result
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Response(bytes(result), media_type="application/octet-stream")
    if hasattr(result, "__aiter__") or hasattr(result, "__next__"):
        return StreamingResponse(_pieces(code.items(result), code.name), media_type="text/plain")
    return Response(_json(result, f"deployment {code.name} returned"), media_type="application/json")


def _json(value: Any, who: str) -> bytes:
    """Return a value as JSON. Raises DeploymentError, which begins with `who`, for a value that JSON can't have."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError) as error:
        said = not_finite(value) if isinstance(error, ValueError) and "Circular" not in str(error) else ""
        raise DeploymentError(
            f"{who} a {type(value).__name__} to an HTTP request, which can't be sent: "
            f"{said or error}; return text, bytes, what JSON can say, a generator of these, or a starlette response"
        ) from None
    return text.encode()


def refusal(error: HTTPException) -> Response:
    """Return the response for starlette's `HTTPException`."""
    headers = getattr(error, "headers", None)
    if isinstance(error.detail, str):
        return PlainTextResponse(error.detail, error.status_code, headers)
    return JSONResponse({"detail": error.detail}, error.status_code, headers)


async def _pieces(items: AsyncIterator[Any], name: str) -> AsyncIterator[bytes]:
    async for item in items:
        if isinstance(item, str):
            yield item.encode()
        elif isinstance(item, (bytes, bytearray, memoryview)):
            yield bytes(item)
        else:
            yield _json(item, f"deployment {name} yielded") + b"\n"


def not_finite(value: Any, path: str = "the result") -> str:
    """Return what and where the first NaN or infinity in a value is; "" without one.

    The value must not contain itself before that.
    """
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{path} is {float(value)}, for which JSON has no number"
    if isinstance(value, dict):
        return next((said for key, each in value.items() if (said := not_finite(each, f"{path}[{key!r}]"))), "")
    if isinstance(value, (list, tuple)):
        return next((said for index, each in enumerate(value) if (said := not_finite(each, f"{path}[{index}]"))), "")
    if value is None or isinstance(value, (str, int)):
        return ""
    try:
        return not_finite(_plain(value), path)
    except TypeError:
        return ""


def _plain(value: Any) -> Any:
    """Return a plain value for numpy's arrays and numbers, pydantic's models, dataclasses, and plain values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, (set, frozenset, deque)):
        return list(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    if isinstance(value, (UUID, Path, Decimal)):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
