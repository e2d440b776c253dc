"""Traces of requests by OpenTelemetry, through all processes that a request crosses. Off, they cost a look at `active`.

`setting.py` says whether and how, `spans.py` makes the spans. OpenTelemetry is not imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_serve.tracing.spans import Tracing

active: Tracing | None = None
"""Makes the spans of this process; None where requests are not traced."""
