"""Traces of requests by OpenTelemetry, through all processes that a request crosses. Off, it costs a look at `active`.

`setting.py` says whether and how, `spans.py` makes the spans; nothing of OpenTelemetry is imported before it is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_serve.tracing.spans import Tracing

active: Tracing | None = None
"""What makes the spans of this process, where requests are traced."""
