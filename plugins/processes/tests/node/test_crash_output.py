"""What is shown of a dead worker's standard error."""

from __future__ import annotations

import os

import kernel
from kernel_processes.node.crash_output import LINES, crash_output

INSIDE = os.path.join(os.path.dirname(kernel.__file__), "runtime", "executor.py")


def test_usually_the_last_lines():
    assert crash_output([f"line {i}" for i in range(30)]) == [f"line {i}" for i in range(30 - LINES, 30)]


def test_empty_lines_are_left_out():
    assert crash_output(["a", "", "  ", "b", ""]) == ["a", "b"]
    assert crash_output([]) == []


def test_of_a_fatal_error_the_users_part_of_the_stack():
    shown = [
        "user's own line",
        "Fatal Python error: Segmentation fault",
        "Current thread 0x01 (most recent call first):",
        '  File "/lib/ctypes/__init__.py", line 519 in string_at',
        '  File "/srv/jobs/program.py", line 3 in work',
    ]
    rest = [f'  File "{INSIDE}", line 200 in _run_call', "", "Extension modules: numpy (total: 1)"]
    assert crash_output(["", *shown, *rest]) == shown


def test_of_a_fatal_error_without_a_stack_no_lists_of_modules():
    assert crash_output(["Fatal Python error: Aborted", "Extension modules: numpy (total: 1)"]) == [
        "Fatal Python error: Aborted"
    ]
