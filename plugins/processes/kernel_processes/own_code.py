"""Register this package's code with the kernel: Ctrl-C does not interrupt it, and users are not shown its lines.

`session`, which starts and joins sessions, is only hidden: a Ctrl-C may interrupt it.
"""

from __future__ import annotations

import os

import kernel_engine.own_code  # noqa: F401  (does the same for the parts that this engine is made of)
from kernel.runtime.critical_sections import take_in_folders
from kernel.runtime.remote_traceback import hide_all

_FOLDER = os.path.dirname(os.path.abspath(__file__))

take_in_folders(*(os.path.join(_FOLDER, name) for name in ("protocol", "runtime", "system", "transport", "worker")))
hide_all(_FOLDER)
