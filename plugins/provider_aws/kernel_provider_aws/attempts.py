"""Where machines of a token were asked for last, so that a repeated call asks there first and makes no others.

EC2 knows a ClientToken within one zone only. If the answer of one zone got lost, and another zone were asked then,
there would be machines in both.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

MOST = 500
"""How many tokens are kept, the newest ones."""


class LaunchAttempts:
    """Keeps a place for each token, in `file`; None: in memory only."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._places: dict[str, str] = {}
        if file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._places = dict(json.loads(file.read_text()))

    def place(self, token: str) -> str | None:
        """Return where machines of a token were asked for last."""
        return self._places.get(token)

    def begin(self, token: str, place: str) -> None:
        """Machines of a token are about to be asked for there."""
        if self._places.get(token) != place:
            self._places.pop(token, None)
            self._places[token] = place
            while len(self._places) > MOST:
                del self._places[next(iter(self._places))]
            self._write()

    def end(self, token: str) -> None:
        """There are no machines of a token anywhere, that is certain."""
        if self._places.pop(token, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(self._places))
            new.replace(self._file)
