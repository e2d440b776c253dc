"""Opens a session: what the entry point names."""

from __future__ import annotations

import os

from kernel.runtime.remote_traceback import hide_all
from kernel_engine.one_process.runtime import OneProcessSession
from kernel_engine.partial_runtime import refuse_options
from kernel_engine_threads.runtime import ThreadsRuntime
from kernel_spec.engines import SessionOptions


def open_session(options: SessionOptions) -> OneProcessSession:
    """Begin a session in threads of this process. Raises OptionError for what they can't do."""
    refuse_options("threads", options, honoured=["num_cpus"])
    hide_all(os.path.dirname(os.path.abspath(__file__)))  # tracebacks show the user's lines, not ours
    return OneProcessSession(ThreadsRuntime(options.num_cpus, options.namespace))
