"""The session's timeline as Chrome trace events."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any


def events_of(answers: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the Chrome trace events of all processes, from the pickled lists of the session's "timeline"."""
    return [event for data in answers for event in pickle.loads(data)]
