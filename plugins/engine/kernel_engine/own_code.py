"""Register this package's code with the kernel: nothing interrupts it, and users are not shown its lines.

Engines import this before they open a session.
"""

from __future__ import annotations

import os

from kernel.runtime.critical_sections import take_in_folders
from kernel.runtime.remote_traceback import hide_all

_FOLDER = os.path.dirname(os.path.abspath(__file__))

take_in_folders(_FOLDER)
hide_all(_FOLDER)
