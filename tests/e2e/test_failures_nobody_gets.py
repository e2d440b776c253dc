"""A failure that nobody asks for is shown once, where the program runs, and stays readable."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import PATIENCE_SECONDS

BEGIN = """
import gc, os, sys, time
import kernel
from kernel_processes.runtime import process_runtime

process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment

@kernel.remote(max_retries=0)
def fails(text):
    raise ValueError(text)

@kernel.remote
def passes(value):
    return value

@kernel.remote
class Actor:
    def __init__(self, text=""):
        if text:
            raise KeyError(text)

    def fails(self, text):
        raise TypeError(text)

def wait_for(count):
    deadline = time.monotonic() + 120
    while len(kernel.errors()) < count:
        assert time.monotonic() < deadline, kernel.errors()
        time.sleep(0.01)
    return [(row["name"], row["message"]) for row in kernel.errors()]
"""
ENGINES = pytest.mark.parametrize("local", [False, True], ids=["processes", "local"])


def run(source: str, *arguments: str) -> tuple[str, str]:
    """Run a program of its own; return what it printed to output and error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(source), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@ENGINES
def test_what_nobody_can_ask_for_any_more_is_shown(local: bool) -> None:
    _, shown = run(f"""
        kernel.init(num_cpus=2, local_mode={local})
        fails.remote("a task")
        actor = Actor.remote()
        actor.fails.remote("a method")
        Actor.remote("a constructor")
        found = wait_for(3)
        assert sorted(found) == [
            ("Actor.__init__()", "'a constructor'"), ("Actor.fails()", "a method"), ("fails()", "a task"),
        ], found
        assert all("in fails" in row["text"] for row in kernel.errors() if row["type"] != "KeyError")
    """)
    for line in (
        "] fails() failed, and nobody has asked for its result",
        "TaskError[ValueError]: fails() raised ValueError: a task",
        "TaskError[TypeError]: Actor.fails() raised TypeError: a method",
        "TaskError[KeyError]: Actor.__init__() raised KeyError: 'a constructor'",
    ):
        assert shown.count(line) == 1, shown
    assert "in fails\n" in shown


@ENGINES
def test_what_is_not_asked_for_in_time_or_by_the_end_is_shown(local: bool) -> None:
    _, shown = run(f"""
        from kernel_engine.failures import unread_failures
        unread_failures.PATIENCE_SECONDS = 0.1
        kernel.init(num_cpus=2, local_mode={local})
        held = fails.remote("held too long")
        assert wait_for(1) == [("fails()", "held too long")]
        unread_failures.PATIENCE_SECONDS = 120.0
        last = fails.remote("held to the end")
        kernel.wait([last])
    """)
    assert shown.count("TaskError[ValueError]: fails() raised ValueError: held too long") == 1, shown
    assert shown.count("TaskError[ValueError]: fails() raised ValueError: held to the end") == 1, shown


@ENGINES
def test_what_was_asked_for_is_not_shown(local: bool) -> None:
    _, shown = run(f"""
        import asyncio
        kernel.init(num_cpus=2, local_mode={local})

        @kernel.remote(max_retries=3, retry_exceptions=True)
        def in_the_end(path):
            import os
            if not os.path.exists(path):
                open(path, "w").close()
                raise ValueError("tried again")

        @kernel.remote
        def looks(refs):
            try:
                kernel.get(refs[0])
            except ValueError:
                return "seen"

        def gone(function):
            try:
                function()
            except (ValueError, kernel.exceptions.TaskError) as error:
                return
            raise AssertionError("it did not raise")

        import os, tempfile
        with tempfile.TemporaryDirectory() as folder:
            kernel.get(in_the_end.remote(os.path.join(folder, "mark")))
        gone(lambda: kernel.get(fails.remote("got")))
        gone(lambda: kernel.get([fails.remote("first of two"), fails.remote("second of two")]))
        argument = fails.remote("an argument")
        gone(lambda: kernel.get(passes.remote(argument)))
        del argument
        gone(lambda: fails.remote("a future").future().result())
        async def awaits():
            return await fails.remote("awaited")
        gone(lambda: asyncio.run(awaits()))
        assert kernel.get(looks.remote([fails.remote("by a task")])) == "seen"
        actor = Actor.remote("the constructor's")
        gone(lambda: kernel.get(actor.fails.remote("never called")))
        del actor
        gc.collect()
        fails.remote("the last")
        assert wait_for(1) == [("fails()", "the last")]
    """)
    assert shown.count("nobody has asked") == 1, shown


def test_those_of_tasks_that_workers_submit_reach_the_program() -> None:
    _, shown = run("""
        kernel.init(num_cpus=2)

        @kernel.remote
        def outer():
            fails.remote("from within")

        @kernel.remote
        class Holder:
            def hold(self):
                self.ref = fails.remote("held by an actor")
                kernel.wait([self.ref])

        kernel.get(outer.remote())
        holder = Holder.remote()
        kernel.get(holder.hold.remote())
        assert wait_for(1) == [("fails()", "from within")]
    """)
    assert shown.count("TaskError[ValueError]: fails() raised ValueError: from within") == 1, shown
    assert shown.count("TaskError[ValueError]: fails() raised ValueError: held by an actor") == 1, shown


def test_many_are_counted_and_none_is_shown_where_that_is_off() -> None:
    program = """
        kernel.init(num_cpus=2, show_failures=sys.argv[1] == "show")
        for number in range(12):
            fails.remote(str(number))
        assert len(wait_for(12)) == 12
    """
    _, shown = run(program, "show")
    assert shown.count("nobody has asked for its result") == 5, shown
    assert "more failures that nobody has asked for were not shown" in shown and "failures=7" in shown, shown
    _, shown = run(program, "quiet")
    assert "nobody has asked" not in shown, shown


def test_a_cancelled_task_and_a_call_of_a_killed_actor_are_no_failures_to_show() -> None:
    _, shown = run("""
        kernel.init(num_cpus=2)

        @kernel.remote
        class Sleeper:
            def sleep(self):
                time.sleep(600)

        sleeper = Sleeper.remote()
        call = sleeper.sleep.remote()
        kernel.kill(sleeper)
        kernel.wait([call])

        @kernel.remote
        def sleeps():
            time.sleep(600)

        task = sleeps.remote()
        kernel.cancel(task)
        kernel.wait([task])
        del task, call
        fails.remote("the last")
        assert wait_for(1) == [("fails()", "the last")]
    """)
    assert shown.count("nobody has asked") == 1, shown


def test_calls_of_an_actor_that_crashed_are_shown() -> None:
    _, shown = run("""
        kernel.init(num_cpus=2)

        @kernel.remote
        class Fragile:
            def crash(self):
                os._exit(7)

            def ping(self):
                return 1

        fragile = Fragile.remote()
        call = fragile.crash.remote()
        kernel.wait([call])
        del call
        assert [name for name, _ in wait_for(1)] == ["Fragile.crash()"]
        fragile.ping.remote()
        assert [name for name, _ in wait_for(2)] == ["Fragile.crash()", "Fragile.ping()"]

        again = Fragile.options(max_restarts=1).remote()
        again.crash.remote()
        assert [name for name, _ in wait_for(3)][2:] == ["Fragile.crash()"]
        assert "may or may not have run" in kernel.errors()[2]["message"]
    """)
    assert shown.count("ActorDiedError: Fragile.crash() failed because the actor") == 1, shown
    assert shown.count("ActorDiedError: Fragile.ping() failed because the actor") == 1, shown
    assert shown.count("exit code 7") == 3, shown


def test_events_begin_with_the_failures_there_were(eventually: Any) -> None:
    @kernel.remote(max_retries=0)
    def fails() -> None:
        raise ValueError("long ago")

    with Cluster(num_cpus=1) as cluster:
        cluster.connect(show_failures=False)
        fails.remote()
        eventually(kernel.errors)
        command = [sys.executable, "-m", "kernel.cli.main", "events", "--kind", "task", "--count", "1"]
        done = subprocess.run(
            [*command, "--address", cluster.head.directory],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        assert "FAILED" in done.stdout and "ValueError: long ago" in done.stdout, done.stdout
