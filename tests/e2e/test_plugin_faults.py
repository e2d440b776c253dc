"""A plugin that raises, or returns nonsense, in any method of its contract: who uses it sees which one, and where.

Nothing hangs, and nothing is silent: each case names the plugin, the method and the line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.exceptions import KernelError, OutOfMemoryError
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session
from kernel_spec import CONTRACTS

SECONDS = 120.0
STORE_BYTES = 32 << 20

HEAD = """
import threading

from kernel_spec import CONTRACTS, hookimpl
from kernel_spec.accelerators import Device
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import Allocation
from kernel_spec.scheduling import Grant, LeaseRequested, PlaceGroup, Preempt, Reclaim
from kernel_spec.serialization import Payload, SerializerBase
from kernel_spec.store import Create


@hookimpl
def kernel_contracts():
    return dict(CONTRACTS)


def boom(*arguments, **more):
    raise RuntimeError("a wheel came off")


def nonsense(*arguments, **more):
    return 7
"""
RAISED = ("RuntimeError: a wheel came off", 'fragile_plugin.py", line')


class Site:
    """Where the plugin `fragile` is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "root").mkdir()
        info = folder / "fragile-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fragile\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[kernel.plugins]\nfragile = fragile_plugin\n")

    def write(self, source: str) -> None:
        sys.modules.pop("fragile_plugin", None)
        (self._folder / "fragile_plugin.py").write_text(HEAD + textwrap.dedent(source))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python where the plugin is installed."""
        environment = {**os.environ, "PYTHONPATH": str(self._folder), "KERNEL_TMPDIR": str(self._folder / "root")}
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.syspath_prepend(folder)
        yield Site(Path(folder))
        sys.modules.pop("fragile_plugin", None)


def offering(hook: str, base: str, body: str, name: str = "fragile") -> str:
    """Return a plugin that offers a class derived from `base` under the name fragile."""
    where, _, what = base.rpartition(".")
    imported = f"from {where} import {what} as Base\n" if where else f"Base = {what}\n"
    return (
        f"{imported}\nclass Fragile(Base):\n    name = {name!r}\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        f"@hookimpl\ndef {hook}():\n    return {{'fragile': Fragile}}\n"
    )


@kernel.remote
def work(value: Any) -> Any:
    return value


@kernel.remote(resources={"NPU": 1})
def on_device() -> int:
    return 1


def use_everything() -> None:
    """Do what needs each of the plugins."""
    assert kernel.get(work.remote(1), timeout=SECONDS) == 1
    large = np.zeros(10 << 20, np.uint8)
    assert kernel.get(work.remote(kernel.put(large)), timeout=SECONDS).nbytes == large.nbytes
    refs = [kernel.put(np.full(10 << 20, number, np.uint8)) for number in range(5)]
    assert [int(kernel.get(ref, timeout=SECONDS)[0]) for ref in refs] == list(range(5))


def error_of(use: Callable[[], Any], **options: Any) -> str:
    """Return the text of what a session, or its use, raises."""
    with pytest.raises(KernelError) as caught, running_session(num_cpus=2, object_store_memory=STORE_BYTES, **options):
        use()
    return str(caught.value)


def expect(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"{part!r} is not in:\n{text}"


def warnings_of_a_program(site: Site) -> str:
    """Return what a program that only starts and ends a session writes to its standard error."""
    ended = site.run("-c", "import kernel; kernel.init(num_cpus=1); kernel.shutdown(); print('done')")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    return ended.stderr


# -- hooks and factories -------------------------------------------------------------------------------------------

CHOSEN = {
    "scheduler": ("kernel_schedulers", {"scheduler": "fragile"}),
    "object_store": ("kernel_object_stores", {"object_store": "fragile"}),
    "serializer": ("kernel_serializers", {"serializer": "fragile"}),
    "head_service": ("kernel_head_services", {"head_services": ("fragile",)}),
    "metadata_store": ("kernel_metadata_stores", "KERNEL_METADATA_STORE"),
    "spill_target": ("kernel_spill_targets", "KERNEL_SPILL_TARGET"),
    "node_provider": ("kernel_node_providers", "KERNEL_NODE_PROVIDER"),
    "memory_guard": ("kernel_memory_guards", "KERNEL_MEMORY_GUARD"),
    "metrics_sink": ("kernel_metrics_sinks", "KERNEL_METRICS_SINKS"),
    "environment": ("kernel_environments", {"runtime_env": {"fragile": 1}}),
}
GATHERED = {"accelerator": "kernel_accelerators", "observer": "kernel_observers"}


def chosen(kind: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    how = CHOSEN[kind][1]
    if isinstance(how, str):
        monkeypatch.setenv(how, "fragile")
        return {}
    return how


def test_every_kind_of_plugin_is_tried_here() -> None:
    assert CHOSEN.keys() | GATHERED.keys() | {"cli_command", "library"} == CONTRACTS.keys()


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_hook_that_raises_is_an_error_of_who_chose_it(kind: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write(f"@hookimpl\ndef {CHOSEN[kind][0]}():\n    boom()")
    text = error_of(use_everything, **chosen(kind, monkeypatch))
    expect(text, "comes from the plugin 'fragile', which is broken", *RAISED, f"in {CHOSEN[kind][0]}")


@pytest.mark.parametrize("kind", [kind for kind in CHOSEN if kind != "node_provider"])
def test_a_factory_that_raises_or_makes_nonsense_is_named(
    kind: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, title = CHOSEN[kind][0], kind.replace("_", " ")
    site.write(f"@hookimpl\ndef {hook}():\n    return {{'fragile': boom}}")
    text = error_of(use_everything, **chosen(kind, monkeypatch))
    expect(text, f"the {title} 'fragile' of the plugin 'fragile' could not be made", hook, *RAISED)
    site.write(f"@hookimpl\ndef {hook}():\n    return {{'fragile': nonsense}}")
    text = error_of(use_everything, **chosen(kind, monkeypatch))
    first = {"environment": "field", "metrics_sink": "interval"}.get(kind, "name")
    expect(text, f"the {title} 'fragile' of the plugin 'fragile' is no {title}: 7 lacks {first}")


@pytest.mark.parametrize("body", ["boom()", "return 7", "return [7]"])
@pytest.mark.parametrize("kind", GATHERED)
def test_a_hook_that_nobody_chose_is_warned_of(kind: str, body: str, site: Site) -> None:
    site.write(f"@hookimpl\ndef {GATHERED[kind]}():\n    {body}")
    text = warnings_of_a_program(site)
    expect(text, "the installed plugin 'fragile' could not be loaded and is left out", GATHERED[kind])
    expect(text, *RAISED if "boom" in body else ["7"])


def test_a_plugin_that_can_not_be_imported_is_warned_of_first(site: Site) -> None:
    site.write("boom()")
    text = warnings_of_a_program(site)
    expect(text, "the installed plugin 'fragile' could not be loaded and is left out", *RAISED)
    expect(text, "`kernel plugins info fragile` shows more")


def test_a_command_that_is_none_is_warned_of(site: Site) -> None:
    site.write("@hookimpl\ndef kernel_cli_commands():\n    return [7]")
    shown = site.run("-m", "kernel.cli.main", "--help")
    assert shown.returncode == 0 and "Commands:" in shown.stdout
    expect(shown.stderr, "the cli command of the plugin 'fragile' is no click.Command with a name", "7")


# -- schedulers ----------------------------------------------------------------------------------------------------

SCHEDULER_ANSWERS = {
    "a node that is not there": (
        "[Grant(event.request.id, NodeId(b'nowhere!'), Allocation(event.request.wanted))]",
        "on node 6e6f776865726521, which is not there: the nodes are",
    ),
    "twice the same": ("grants + grants", "which was granted before, on node"),
    "what nobody asked for": (
        "[Grant(LeaseId(b'stranger'), grants[0].node, grants[0].allocation)]",
        "a grant of lease 737472616e676572, which was not requested",
    ),
    "more than was asked for": (
        "[Grant(grants[0].id, grants[0].node, Allocation({'CPU': 20000}))]",
        "of CPU: 2, where CPU: 1 was asked for",
    ),
    "no instruction": ("['go on']", "'go on', which is no instruction"),
    "no list": ("7", "returned 7, not a list"),
    "a preemption of nobody": ("[Preempt(LeaseId(b'stranger'), 'why not')]", "which is not held"),
    "a reclaim of nobody": ("[Reclaim(LeaseId(b'stranger'))]", "which is not held"),
    "a group that nobody wants": ("[PlaceGroup(LeaseId(b'stranger'), ())]", "which was not requested or is over"),
    "an error": ("boom()", "raised RuntimeError: a wheel came off"),
}


@pytest.mark.parametrize("what", SCHEDULER_ANSWERS)
def test_what_a_scheduler_may_not_say_ends_the_session_by_its_name(what: str, site: Site) -> None:
    answer, expected = SCHEDULER_ANSWERS[what]
    body = f"""
    def handle(self, event, now):
        grants = super().handle(event, now)
        return {answer} if isinstance(event, LeaseRequested) and event.request.name == "work" else grants
    """
    site.write(offering("kernel_schedulers", "kernel.defaults.scheduler.LocalScheduler", body))
    text = error_of(lambda: kernel.get(work.remote(1), timeout=SECONDS), scheduler="fragile")
    expect(text, "the session has ended", "scheduler plugin 'fragile'", expected)
    if what == "an error":
        expect(text, *RAISED, "in handle")
    else:
        expect(text, "its handle(LeaseRequested) returned")


@pytest.mark.parametrize("method", ["explain", "snapshot"])
def test_a_question_that_a_scheduler_can_not_answer_is_answered_with_its_lines(method: str, site: Site) -> None:
    site.write(offering("kernel_schedulers", "kernel.defaults.scheduler.LocalScheduler", f"{method} = boom"))
    with running_session(num_cpus=1, scheduler="fragile"):
        if method == "explain":
            waiting = work.options(num_cpus=8).remote(1)
            with pytest.raises(kernel.exceptions.GetTimeoutError) as timed_out:
                kernel.get(waiting, timeout=3)
            text = str(timed_out.value)
        else:
            with pytest.raises(KernelError) as failed:
                kernel.available_resources()
            text = str(failed.value)
        expect(text, "scheduler plugin 'fragile'", method, *RAISED)


# -- object stores -------------------------------------------------------------------------------------------------

STORE = """
import kernel_store_plasma.plugin


class Half:
    def __init__(self, half, wrong):
        self.half, self.wrong = half, wrong
        self.name = "fragile"

    def __getattr__(self, name):
        return self.wrong[name] if name in self.wrong else getattr(self.half, name)


class Fragile:
    name = "fragile"

    def __init__(self):
        self.store = kernel_store_plasma.plugin.PlasmaStore()

    def open_server(self, capacity, directory):
        WHILE_OPENING
        return Half(self.store.open_server(capacity, directory), {OF_SERVER})

    def open_client(self, descriptors, options):
        return Half(self.store.open_client(descriptors, options), {OF_CLIENT})


@hookimpl
def kernel_object_stores():
    return {"fragile": Fragile}
"""


def store_with(server: str = "", client: str = "", store: str = "") -> str:
    """Return a plugin with our object store, of which some methods do something else."""
    return STORE.replace("OF_SERVER", server).replace("OF_CLIENT", client).replace("WHILE_OPENING", store)


@pytest.mark.parametrize("method", ["handle", "give_up_waiting", "descriptors", "client_options"])
def test_a_store_that_raises_ends_the_session_by_its_name(method: str, site: Site) -> None:
    site.write(store_with(server=f"{method!r}: boom"))

    def use() -> None:
        views = [kernel.get(kernel.put(np.zeros(10 << 20, np.uint8)), timeout=SECONDS) for _ in range(8)]
        assert len(views) == 8

    text = error_of(use, object_store="fragile")
    expect(text, "the object store 'fragile' of the plugin 'fragile'", f"its {method}(", *RAISED)


def test_a_store_that_answers_with_nonsense_ends_the_session_by_its_name(site: Site) -> None:
    site.write(store_with(server="'handle': lambda event: [7] if isinstance(event, Create) else []"))
    text = error_of(lambda: kernel.put(np.zeros(10 << 20, np.uint8)), object_store="fragile")
    expect(
        text, "the object store 'fragile' of the plugin 'fragile'", "its handle(Create)", "7, which is no instruction"
    )


def test_a_store_that_can_not_be_opened_is_an_error_of_init(site: Site) -> None:
    site.write(store_with(store="boom()"))
    text = error_of(use_everything, object_store="fragile")
    expect(text, "the object store 'fragile' of the plugin 'fragile': its open_server()", *RAISED)
    site.write(store_with(store="return 7"))
    text = error_of(use_everything, object_store="fragile")
    expect(text, "its open_server() returned 7, which is no StoreServer: it lacks name, handle")


@pytest.mark.parametrize("method", ["writable", "readable"])
def test_a_client_of_a_store_that_raises_is_an_error_of_who_uses_it(method: str, site: Site) -> None:
    site.write(store_with(client=f"{method!r}: boom"))
    text = error_of(use_everything, object_store="fragile")
    expect(text, "object store", f"its {method}()", *RAISED)


# -- the others ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["boom()", "return 7"])
@pytest.mark.parametrize("method", ["encode", "decode", "reducers"])
def test_a_serializer_that_fails_is_named(method: str, body: str, site: Site) -> None:
    other = (
        "" if method != "decode" else "def encode(self, payload): return Payload(b'x' + payload.head, payload.buffers)"
    )
    wrong = f"{other}\ndef {method}(self, *arguments):\n    {body}"
    site.write(offering("kernel_serializers", "SerializerBase", wrong))
    text = error_of(use_everything, serializer="fragile")
    expect(text, "serializer", "'fragile'", method)
    expect(text, *RAISED if "boom" in body else ["7"])


def test_a_reducer_that_raises_is_named(site: Site) -> None:
    body = "def reducers(self):\n    return {'builtins.complex': boom}"
    site.write(offering("kernel_serializers", "SerializerBase", body))
    text = error_of(lambda: kernel.get(work.remote([1j])), serializer="fragile")
    expect(text, "RuntimeError: a wheel came off", "serializer plugin 'fragile'", 'fragile_plugin.py", line')


@pytest.mark.parametrize("method", ["detect", "isolate"])
@pytest.mark.parametrize("body", ["boom()", "return 7"])
def test_an_accelerator_that_fails_is_named(
    method: str, body: str, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    methods = {"detect": "return [Device(0, 'zero')]", "isolate": "return {}", method: body}
    both = "\n".join(f"    def {name}(self, *arguments):\n        {code}" for name, code in methods.items())
    site.write(
        f"class Fragile:\n    resource = 'NPU'\n{both}\n@hookimpl\ndef kernel_accelerators():\n    return [Fragile()]"
    )
    with running_session(num_cpus=2):
        assert kernel.get(work.remote(1), timeout=SECONDS) == 1
        if method == "isolate":
            with pytest.raises(KernelError) as failed:
                kernel.get(on_device.remote(), timeout=SECONDS)
            text = str(failed.value)
        else:
            text = capfd.readouterr().err
            assert "NPU" not in kernel.cluster_resources()
    expect(text, "the accelerator of the plugin 'fragile', for the resource 'NPU'", f"its {method}()")
    expect(text, *RAISED if "boom" in body else ["7"])


def test_an_observer_that_raises_is_named_and_asked_no_more(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site.write("class Fragile:\n    observe = boom\n@hookimpl\ndef kernel_observers():\n    return [Fragile()]")
    seen = ""

    def told() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        return "it is asked no more" in seen

    with running_session(num_cpus=1):
        assert kernel.get(work.remote(1), timeout=SECONDS) == 1
        wait_until(told, SECONDS, "the fault is shown")
    expect(seen + capfd.readouterr().err, "the observer of the plugin 'fragile' raised", *RAISED)


GUARD = """
    def sample(self, now, limits, workers):
        for worker in workers:
            if "victim" in worker.name:
                return [EndForMemory(worker.id, "out of memory", "the fragile guard has chosen it")]
            if "breaker" in worker.name:
                boom()
        return []

    def wait(self, limits):
        return 0.1
"""


@kernel.remote(max_retries=0)
def victim() -> None:
    threading.Event().wait(SECONDS)


@kernel.remote(max_retries=0)
def breaker(seconds: float) -> int:
    time.sleep(seconds)
    return 1


def test_a_memory_guard_decides_until_it_raises(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = offering("kernel_memory_guards", "kernel.defaults.memory_guard.LocalMemoryGuard", GUARD)
    site.write(f"from kernel_spec.memory_guards import EndForMemory\n{source}")
    monkeypatch.setenv("KERNEL_MEMORY_GUARD", "fragile")
    seen = ""

    def told() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        return "the kernel's own memory guard" in seen

    with running_session(num_cpus=2):
        with pytest.raises(OutOfMemoryError, match="the fragile guard has chosen it"):
            kernel.get(victim.remote(), timeout=SECONDS)
        broken = breaker.remote(2.0)
        wait_until(told, SECONDS, "the fault is shown")
        assert kernel.get(broken, timeout=SECONDS) == 1
        with pytest.raises(kernel.exceptions.GetTimeoutError):
            kernel.get(victim.remote(), timeout=1.0)
    expect(seen, "the memory guard 'fragile' of the plugin 'fragile': its sample() raised", *RAISED)


@pytest.mark.parametrize("body", ["boom()", "return 7"])
def test_a_head_service_that_can_not_start_is_named(body: str, site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    source = (
        f"class Fragile:\n    name = 'fragile'\n    def start(self, head):\n        {body}\n    def stop(self): ...\n"
    )
    site.write(source + "@hookimpl\ndef kernel_head_services():\n    return {'fragile': Fragile}")
    seen = ""

    def told() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        return "it does not run" in seen

    with running_session(num_cpus=1, head_services=("fragile",)):
        assert kernel.get(work.remote(1), timeout=SECONDS) == 1
        wait_until(told, SECONDS, "the fault is shown")
    expect(seen + capfd.readouterr().err, "head service 'fragile'", "its start()")
    expect(seen, *RAISED if "boom" in body else ["'int' object is not iterable"])


@pytest.mark.parametrize("method", ["get", "put", "scan", "delete"])
@pytest.mark.parametrize("body", ["boom()", "return 7"])
def test_a_metadata_store_that_fails_is_named(
    method: str, body: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = f"def {method}(self, table, *arguments, **more):\n    if table.startswith('kv:'): {body}\n"
    wrong += f"    return super().{method}(table, *arguments, **more)"
    source = offering("kernel_metadata_stores", "kernel.defaults.metadata.LocalMetadataStore", wrong)
    site.write(source.replace("{'fragile': Fragile}", "{'fragile': lambda directory: Fragile()}"))
    monkeypatch.setenv("KERNEL_METADATA_STORE", "fragile")

    def use() -> None:
        store = kernel.KeyValue("space")
        store.put("key", b"value")
        assert store.get("key") == b"value"
        store.keys("")
        store.delete("key")

    text = error_of(use)
    expect(text, "the metadata store 'fragile' of the plugin 'fragile'", f"its {method}()")
    expect(text, *RAISED if "boom" in body else ["7"])


@pytest.mark.parametrize(("method", "body"), [("write", "boom()"), ("write", "return 7"), ("read_into", "boom()")])
def test_a_spill_target_that_fails_is_named(
    method: str, body: str, site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = f"def {method}(self, *arguments):\n    {body}"
    site.write(offering("kernel_spill_targets", "kernel.defaults.spill.DiskSpill", wrong))
    monkeypatch.setenv("KERNEL_SPILL_TARGET", "fragile")
    text = error_of(use_everything)
    expect(text, "spill target 'fragile'", f"its {method}()")
    expect(text, *RAISED if "boom" in body else ["7"])
