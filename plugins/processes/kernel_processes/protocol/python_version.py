"""Return the version of Python that a process runs: all processes of a session must run the same."""

from __future__ import annotations

import sys

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
