"""Local mode: everything in one process and one thread, and nothing that hangs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest
import structlog
from kernel_local_mode.event_loop import LocalLoop
from kernel_local_mode.helpers import Helpers

import kernel
from kernel import exceptions
from kernel.installing import install_command
from kernel.runtime.current import get_runtime
from kernel.testing.faults import wait_until

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


@pytest.fixture
def local():
    kernel.shutdown()
    with kernel.init(local_mode=True, num_cpus=2, num_gpus=1) as info:
        yield info


@kernel.remote
def thread():
    return threading.get_ident()


@kernel.remote
class Gate:
    def __init__(self):
        self.opened = asyncio.Event()

    async def open(self):
        self.opened.set()

    async def passed(self):
        await self.opened.wait()
        return "passed"


# -- where things run ----------------------------------------------------------------------------------------------


def test_tasks_and_plain_actors_run_in_the_calling_thread(local):
    @kernel.remote
    class Actor:
        def __init__(self):
            self.made_in = threading.get_ident()

        def threads(self):
            return [self.made_in, threading.get_ident(), kernel.get(thread.remote())]

    assert kernel.get(thread.remote()) == threading.get_ident()
    assert kernel.get(Actor.remote().threads.remote()) == [threading.get_ident()] * 3


def test_a_task_has_run_when_remote_returns(local):
    ran = []

    @kernel.remote
    def note(ran_id):
        import ctypes

        ctypes.cast(ran_id, ctypes.py_object).value.append(1)

    ref = note.remote(id(ran))
    assert ran == [1] and ref.is_ready()


def test_breakpoints_read_the_real_input():
    program = """
import kernel

kernel.init(local_mode=True)

@kernel.remote
def stops():
    secret = 6 * 7
    breakpoint()
    return secret

print("result", kernel.get(stops.remote()))
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, input="p secret + 1\nc\n", capture_output=True, text=True, timeout=SECONDS)
    assert "(Pdb) 43" in done.stdout and "result 42" in done.stdout, done.stdout + done.stderr


def test_ctrl_c_in_a_task_reaches_the_program(local):
    refs = []

    @kernel.remote
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refs.append(interrupted.remote())
    assert refs == []
    assert kernel.get(thread.remote()) == threading.get_ident()


# -- actors that end early -----------------------------------------------------------------------------------------


def test_an_actor_that_is_killed_before_its_loop_runs_is_not_constructed(local, monkeypatch):
    loops, raised = [], []
    with monkeypatch.context() as late:
        late.setattr(LocalLoop, "start", lambda loop: loops.append(loop))
        gate = Gate.remote()
        kernel.kill(gate)
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    (loop,) = loops
    loop.start()
    loop.thread.join(SECONDS)
    assert not loop.thread.is_alive() and raised == []
    assert get_runtime().actors.actors[gate._actor_id].instance is None


def test_an_actor_that_is_killed_in_its_constructor_keeps_no_instance(local):
    @kernel.remote
    class Brief:
        def __init__(self):
            kernel.kill(kernel.get_runtime_context().current_actor)

        def any(self):
            return None

    actor = Brief.remote()
    assert get_runtime().actors.actors[actor._actor_id].instance is None
    with pytest.raises(exceptions.ActorDiedError, match=r"killed by kernel\.kill"):
        kernel.get(actor.any.remote(), timeout=SECONDS)


# -- nothing hangs -------------------------------------------------------------------------------------------------


def test_what_no_node_has_raises_at_once(local):
    ref = thread.options(num_cpus=64).remote()
    with pytest.raises(exceptions.InfeasibleError, match=r"thread\(\) waits for a worker: it wants CPU: 64"):
        kernel.get(ref)
    with pytest.raises(exceptions.InfeasibleError):
        kernel.wait([ref])
    assert kernel.wait([ref, thread.remote()])[0] != []
    with pytest.raises(exceptions.GetTimeoutError, match=r"within 0.01 s: .*it wants CPU: 64, and no node has that"):
        kernel.get(ref, timeout=0.01)


def test_what_depends_on_the_impossible_raises_at_once(local):
    @kernel.remote
    def after(value):
        return value

    with pytest.raises(exceptions.InfeasibleError, match=r"it wants .*GPU: 2"):
        kernel.get(after.remote(after.remote(after.options(num_gpus=2).remote(1))))


def test_calls_of_an_impossible_actor_raise_at_once(local):
    with pytest.raises(exceptions.InfeasibleError, match="actor Gate waits for a worker: it wants nothing_such: 1"):
        kernel.get(Gate.options(resources={"nothing_such": 1}, num_cpus=0).remote().passed.remote())


def test_an_actor_that_waits_for_itself(local):
    @kernel.remote
    class Narcissus:
        def look(self):
            return kernel.get(kernel.get_runtime_context().current_actor.answer.remote())

        def answer(self):
            return 1

    with pytest.raises(exceptions.InfeasibleError, match=r"answer\(\) waits for its turn: Narcissus.look\(\) runs"):
        kernel.get(Narcissus.remote().look.remote())


def test_a_task_that_waits_for_what_its_caller_would_do_later(local):
    gate = Gate.remote()

    @kernel.remote
    def wait(gate):
        kernel.get(gate.passed.remote())

    with pytest.raises(exceptions.InfeasibleError, match=r"Gate.passed\(\) is running .* nothing else runs"):
        kernel.get(wait.remote(gate))


def test_another_thread_of_the_program_may_end_a_wait(local):
    gate = Gate.remote()
    passed = gate.passed.remote()
    begun = threading.Event()

    def open_later():
        begun.wait(SECONDS)
        kernel.get(gate.open.remote())

    opener = threading.Thread(target=open_later)
    opener.start()
    begun.set()
    assert kernel.get(passed, timeout=None) == "passed"
    opener.join()


def test_looking_for_hopeless_waits_takes_no_time(local):
    gate = Gate.options(max_concurrency=30).remote()
    held = [gate.passed.remote() for _ in range(40)]
    kernel.wait([held[0]], timeout=0.05)

    @kernel.remote
    def pair(left, right):
        return 1

    refs = [held[-1]]
    for _ in range(60):
        refs.append(pair.remote(refs[-1], refs[-1]))
    with pytest.raises(exceptions.InfeasibleError, match="nothing else runs"):
        kernel.get(refs[-1])


def test_a_resource_held_by_ones_own_caller(local):
    @kernel.remote(num_gpus=1)
    def outer():
        return kernel.get(inner.remote())

    @kernel.remote(num_gpus=1)
    def inner():
        return 1

    with pytest.raises(exceptions.InfeasibleError, match=r"inner\(\) waits for a worker: .* lacks GPU: 1"):
        kernel.get(outer.remote())


def test_a_bounded_stream_that_nobody_reads(local):
    @kernel.remote(stream_ahead=1)
    def numbers():
        yield 1
        yield 2

    with pytest.raises(exceptions.InfeasibleError, match=r"numbers\(\) yielded as many items as it may be ahead"):
        kernel.get(numbers.remote().completed())


def test_deep_recursion_of_tasks_needs_one_cpu(local):
    @kernel.remote(num_cpus=2)
    def down(n):
        return n if n == 0 else kernel.get(down.remote(n - 1))

    assert kernel.get(down.remote(20)) == 0
    assert kernel.available_resources()["CPU"] == 2


# -- resources and streams -----------------------------------------------------------------------------------------


def test_a_generator_put_aside_holds_no_cpu(local):
    @kernel.remote(num_cpus=2)
    def endless():
        while True:
            yield 0

    streams = [endless.remote() for _ in range(4)]
    assert [kernel.get(next(stream)) for stream in streams] == [0] * 4
    assert kernel.get(thread.remote()) == threading.get_ident()
    for stream in streams:
        stream.close()
    # The generators end in threads of their own.
    wait_until(lambda: kernel.available_resources()["CPU"] == 2, SECONDS, "both CPUs to be free again")


def test_many_queued_calls_do_not_nest(local):
    @kernel.remote
    class Counter:
        def __init__(self):
            self.value = 0

        def add(self, amount):
            self.value += amount
            return self.value

    gate, counter = Gate.remote(), Counter.remote()

    @kernel.remote
    def one(_):
        return 1

    refs = [counter.add.remote(one.remote(gate.passed.remote()))] + [counter.add.remote(1) for _ in range(500)]
    kernel.get(gate.open.remote())
    assert kernel.get(refs, timeout=SECONDS) == list(range(1, 502))


# -- the session ---------------------------------------------------------------------------------------------------


def test_what_the_session_says_of_itself(local):
    assert local["local_mode"] is True and os.path.isdir(local["session_dir"])
    assert kernel.cluster_resources()["CPU"] == 2
    [node] = kernel.nodes()
    assert node["AgentPid"] == os.getpid() and node["Alive"]
    runtime = get_runtime()
    assert runtime.query("kv_put", "space", b"k", b"v", True) is True
    assert runtime.query("kv_get", "space", b"k") == b"v"
    assert runtime.query("kv_keys", "space", b"") == [b"k"]
    assert runtime.query("kv_delete", "space", b"k") is True
    assert runtime.query("status")["waiting_count"] == 0
    with pytest.raises(exceptions.ProtocolError, match="does not answer 'nonsense'"):
        runtime.query("nonsense")


def test_shutdown_leaves_nothing(local, monkeypatch):
    gate = Gate.remote()
    ref = gate.passed.remote()
    with pytest.raises(exceptions.GetTimeoutError):
        kernel.get(ref, timeout=0.01)
    loops = [each for each in threading.enumerate() if each.name.startswith("kernel-local")]
    assert loops
    kernel.shutdown()
    for each in loops:
        each.join(timeout=SECONDS)
    assert not [each for each in threading.enumerate() if each.name.startswith("kernel-local")]
    assert not os.path.exists(local["session_dir"])
    assert not kernel.is_initialized()


def test_an_environment_of_the_whole_program(monkeypatch):
    monkeypatch.delenv("KT_LOCAL", raising=False)
    kernel.shutdown()

    @kernel.remote
    def read():
        return os.environ.get("KT_LOCAL")

    with kernel.init(local_mode=True, runtime_env={"env_vars": {"KT_LOCAL": "program"}}):
        assert kernel.get(read.remote()) == "program"
        assert kernel.get(read.options(runtime_env={"env_vars": {"KT_LOCAL": "task"}}).remote()) == "task"
        assert "KT_LOCAL" not in os.environ


def test_ids_repeat_with_a_seed():
    kernel.shutdown()
    seen = []
    for _ in range(2):
        with kernel.init(local_mode=True, object_id_seed=7):
            seen.append(kernel.put(1).hex())
    assert seen[0] == seen[1]


def test_local_mode_and_an_address_contradict_each_other():
    kernel.shutdown()
    with pytest.raises(exceptions.OptionError, match="contradict"):
        kernel.init(local_mode=True, address="auto")


def test_the_bare_kernel_runs_in_local_mode_and_says_so_once(monkeypatch):
    kernel.shutdown()
    monkeypatch.setenv("KERNEL_PLUGINS", "local")
    with structlog.testing.capture_logs() as logs, kernel.init(num_cpus=1, configure_logging=False) as info:
        assert info["local_mode"] is True
        assert kernel.get(thread.remote()) == threading.get_ident()
    warnings = [channel for channel in logs if channel["log_level"] == "warning"]
    assert len(warnings) == 1
    assert install_command("plugins") in warnings[0]["event"]
    assert "object store" in warnings[0]["reason"] or "object_store" in warnings[0]["reason"]


def test_the_configuration_file_selects_serializers(tmp_path, monkeypatch):
    kernel.shutdown()
    (tmp_path / "kernel.toml").write_text('[plugins]\nserializer = "nonesuch"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(exceptions.PluginNotFoundError, match=r"nonesuch.*kernel\.toml"):
        kernel.init(local_mode=True)


def test_what_fails_in_a_helper_leaves_the_turn_to_the_next(monkeypatch):
    died, ran = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda failure: died.append(failure.exc_type))
    helpers = Helpers()

    def fail(error):
        raise error

    for error in (KeyboardInterrupt, RuntimeError):
        helpers.submit(lambda error=error: fail(error))
    helpers.submit(ran.set)
    assert ran.wait(SECONDS)
    wait_until(lambda: died, SECONDS, "the end of the thread that it failed in")
    assert died == [RuntimeError]


def test_pending_calls_are_counted_for_each_caller(local):
    gate = Gate.options(max_pending_calls=1).remote()
    blocked_threads = gate.passed.remote()
    with pytest.raises(exceptions.PendingCallsLimitError, match="has 1 calls of this process waiting"):
        gate.passed.remote()

    @kernel.remote
    def opens():
        kernel.get(gate.open.remote())

    kernel.get([opens.remote(), blocked_threads])
