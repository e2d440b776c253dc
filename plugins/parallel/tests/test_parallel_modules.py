"""Globals of functions that came by value: one module for all of them in a worker."""

from __future__ import annotations

from functools import partial
from typing import Any

import cloudpickle
from kernel_parallel.workers.modules import SharedModules

PROGRAM = """
model, seen, factor = None, [], 2

def initialize():
    global model
    model = "loaded"
    seen.append("initialized")

def helper():
    return model, list(seen), factor

def task():
    return helper()

class Task:
    def run(self):
        return helper()
"""


def program() -> dict[str, Any]:
    """Return the globals of a program that no worker can import."""
    names: dict[str, Any] = {"__name__": "only_here"}
    exec(PROGRAM, names)
    return names


def sent(value: Any) -> Any:
    """Return a value as it arrives."""
    return cloudpickle.loads(cloudpickle.dumps(value))


def test_what_an_initializer_sets_all_tasks_find() -> None:
    here, modules = program(), SharedModules()
    modules.adopt(sent(here["initialize"]))()
    expected = ("loaded", ["initialized"], 2)
    assert modules.adopt(sent(here["task"]))() == expected
    assert modules.adopt(partial(sent(here["task"])))() == expected
    assert modules.adopt(sent(here["Task"]().run))() == expected


def test_what_the_program_changes_arrives_with_the_next_function() -> None:
    here, modules = program(), SharedModules()
    modules.adopt(sent(here["initialize"]))()
    assert modules.adopt(sent(here["task"]))()[2] == 2
    here["factor"] = 3
    assert modules.adopt(sent(here["task"]))() == ("loaded", ["initialized"], 3)
    exec("def helper():\n    return 'a new one'", here)
    assert modules.adopt(sent(here["task"]))() == "a new one"


def test_functions_of_modules_that_workers_have_are_left_alone() -> None:
    assert SharedModules().adopt(program) is program and SharedModules().adopt(len) is len
