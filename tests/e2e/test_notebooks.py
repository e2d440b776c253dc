"""Notebooks and IPython: errors of tasks are shown like others there, and waiting in a cell is nobody's mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from kernel.testing.faults import PATIENCE_SECONDS
from kernel.testing.roots import temporary_root

BEGIN = """
import os, signal, threading, time
import kernel
kernel.init(num_cpus=2, temp_dir="{folder}")

@kernel.remote(max_retries=0)
def divide(x):
    zero = x - x
    return x / zero

@kernel.remote
def outer(x):
    return kernel.get(divide.remote(x))

@kernel.remote
class Broken:
    def __init__(self):
        raise ValueError("not today")

    def method(self):
        pass

@kernel.remote(num_cpus=0)
def interrupts(pid):
    os.kill(pid, signal.SIGINT)
    time.sleep(600)

def pause():
    time.sleep(0.01)
"""
CELLS = {
    "waits": "kernel.wait([kernel.put(1)]) and kernel.get(kernel.put(2))",
    "fails": "kernel.get(divide.remote(3))",
    "fails within": "kernel.get(outer.remote(3))",
    "awaits a failure": "await divide.remote(3)",
    "awaits, then waits": "await kernel.put(1)\nkernel.get(kernel.put(3))",
    "has a broken actor": "broken = Broken.remote()\nkernel.get(broken.method.remote())",
    "runs out of time": "@kernel.remote\ndef sleeps():\n    time.sleep(600)\nkernel.get(sleeps.remote(), timeout=0.1)",
    "blocks in a coroutine": "async def mine():\n    return kernel.get(kernel.put(4))\nawait mine()",
    "leaves a failure behind": "divide.remote(5) and None\nwhile not kernel.errors():\n    pause()",
    "can't be put": "kernel.put(threading.Lock())",
    "can't be called": "divide.remote(1, 2)",
    "is interrupted in get": "kernel.get(interrupts.remote(os.getpid()))",
    "is interrupted elsewhere": "interrupts.remote(os.getpid()) and time.sleep(600)",
    "tunes": (
        "from kernel import tune\n"
        "def trainable(config):\n    tune.report({{'score': config['x']}})\n"
        "runs = tune.RunConfig(storage_path='{folder}')\n"
        "space = {{'x': tune.grid_search([1, 2, 3])}}\n"
        "tune.Tuner(trainable, param_space=space, run_config=runs).fit().num_errors"
    ),
    "ends": "kernel.shutdown()",
}


@pytest.fixture(scope="module")
def cells() -> Iterator[dict[str, dict[str, Any]]]:
    """What each cell showed: by kind of output, its text without colours; `display` has a list of HTML."""
    with temporary_root() as folder:
        notebook = nbformat.v4.new_notebook()
        sources = [BEGIN, *CELLS.values()]
        notebook.cells = [nbformat.v4.new_code_cell(source.format(folder=folder)) for source in sources]
        client = NotebookClient(notebook, timeout=int(PATIENCE_SECONDS), kernel_name="python3", allow_errors=True)
        client.create_kernel_manager()
        client.execute(env=surroundings(folder))
        yield {name: shown(cell) for name, cell in zip(["begins", *CELLS], notebook.cells, strict=True)}


def surroundings(folder: str) -> dict[str, str]:
    """Return the environment of IPython's process, which keeps what it writes in `folder`."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "IPYTHONDIR": os.path.join(folder, "ipython")}


def shown(cell: Any) -> dict[str, Any]:
    """Return what a cell showed."""
    found: dict[str, Any] = {"stdout": "", "stderr": "", "error": "", "result": None, "display": []}
    for output in cell.outputs:
        if output.output_type == "stream":
            found[output.name] += output.text
        elif output.output_type == "error":
            found["error"] += re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
        elif output.output_type == "display_data":
            found["display"].append(output.data.get("text/html", ""))
        else:
            found["result"] = output.data["text/plain"]
    return found


def test_cells_that_wait_show_nothing_else(cells: dict[str, dict[str, Any]]) -> None:
    assert cells["begins"] == {"stdout": "", "stderr": "", "error": "", "result": None, "display": []}
    assert cells["waits"] == {"stdout": "", "stderr": "", "error": "", "result": "2", "display": []}
    assert cells["awaits, then waits"] == {"stdout": "", "stderr": "", "error": "", "result": "3", "display": []}
    assert cells["ends"]["stderr"] == ""


@pytest.mark.parametrize("name", ["fails", "fails within", "awaits a failure"])
def test_an_error_of_a_task_is_shown_with_the_cells_lines(cells: dict[str, dict[str, Any]], name: str) -> None:
    cell = cells[name]
    assert cell["stdout"] == cell["stderr"] == "", cell
    assert "---> 8     return x / zero" in cell["error"] and "in divide()" in cell["error"], cell["error"]
    assert f"----> 1 {CELLS[name]}" in cell["error"], cell["error"]
    assert "TaskError[ZeroDivisionError]: divide() raised ZeroDivisionError: division by zero" in cell["error"], cell[
        "error"
    ]
    assert "operations.py" not in cell["error"] and "futures.py" not in cell["error"], cell["error"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("can't be put", "SerializationError: can't pickle the value"),
        ("can't be called", "TypeError: divide() takes 1 positional argument but 2 were given"),
        ("is interrupted in get", "KeyboardInterrupt"),
        ("is interrupted elsewhere", "KeyboardInterrupt"),
    ],
)
def test_no_line_but_the_cells_is_shown(cells: dict[str, dict[str, Any]], name: str, error: str) -> None:
    shown = cells[name]["error"]
    assert f"----> 1 {CELLS[name]}" in shown and error in shown, shown
    assert ".py" not in shown and "skipping hidden" not in shown, shown


def test_errors_of_actors_and_of_the_kernel_are_shown(cells: dict[str, dict[str, Any]]) -> None:
    for name in ("has a broken actor", "runs out of time"):
        assert cells[name]["stdout"] == cells[name]["stderr"] == "", cells[name]
    assert 'raise ValueError("not today")' in cells["has a broken actor"]["error"]
    assert "GetTimeoutError: get() had no result within 0.1 s" in cells["runs out of time"]["error"]


def test_a_coroutine_that_blocks_is_warned_of(cells: dict[str, dict[str, Any]]) -> None:
    assert "kernel.get() in a coroutine blocks its event loop" in cells["blocks in a coroutine"]["stderr"]


def test_a_failure_that_nobody_gets_is_shown(cells: dict[str, dict[str, Any]]) -> None:
    assert "divide() failed, and nobody has asked for its result" in cells["leaves a failure behind"]["stderr"]


def test_tune_shows_one_table_that_changes(cells: dict[str, dict[str, Any]]) -> None:
    cell = cells["tunes"]
    assert cell["result"] == "0" and cell["error"] == cell["stdout"] == "", cell
    (table,) = cell["display"]
    assert table.count("TERMINATED</td>") == 3, table


def test_ipython_on_a_terminal_shows_the_same() -> None:
    with temporary_root() as folder:
        script = Path(folder, "work.ipy")
        script.write_text(BEGIN.format(folder=folder) + "\nkernel.get(outer.remote(3))\n")
        command = [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor", str(script)]
        done = subprocess.run(
            command, env=surroundings(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
    said = done.stdout + done.stderr
    assert "Unexpected exception" not in said and "blocks its event loop" not in said, said
    assert (
        "return x / zero" in said
        and "TaskError[ZeroDivisionError]: divide() raised ZeroDivisionError: division by zero" in said
    ), said
