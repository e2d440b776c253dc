"""Each contract's default replaced in turn: the same program runs, and the replacement has really done the work.

The replacements are installed by a stranger and are the references of `kernel.defaults`, or small ones, that write a
line into a file whenever they are asked for what their contract is about.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.plugins import KINDS
from kernel.runtime.current import get_runtime
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session

SECONDS = 120.0
ARRAY_BYTES = 4 << 20
"""What goes into the object store, and is not copied into messages."""

HEAD = """
import os

from kernel_spec import CONTRACTS, hookimpl


def note(word):
    with open({path!r}, "a") as file:
        file.write(f"{{word}} {{os.getpid()}}\\n")


@hookimpl
def kernel_contracts():
    return dict(CONTRACTS)

"""


@dataclass(frozen=True)
class Replacement:
    """Another implementation of a contract.

    `source` defines it. `words` are what it notes when it is used, and `in_program` says whether the program itself
    does that, and no other process. `options` and `variables` choose it. `work` are options of the task and the actor,
    which see one of `sees` in a variable of their environment.
    """

    source: str
    words: set[str]
    options: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    work: dict[str, Any] = field(default_factory=dict)
    sees: tuple[str, ...] = ("",)
    in_program: bool = False


SCHEDULER = """
from kernel.defaults.scheduler import LocalScheduler


class Mine(LocalScheduler):
    name = "mine"

    def handle(self, event, now):
        decided = super().handle(event, now)
        for instruction in decided:
            note(type(instruction).__name__)
        return decided


@hookimpl
def kernel_schedulers():
    return {"mine": Mine}
"""

OBJECT_STORE = """
from kernel.defaults.object_store import LocalObjectStore


class Mine(LocalObjectStore):
    name = "mine"

    def open_server(self, capacity, directory=None):
        server = super().open_server(capacity, directory)
        handle = server.handle

        def noted(event):
            note(type(event).__name__)
            return handle(event)

        server.handle = noted
        return server


@hookimpl
def kernel_object_stores():
    return {"mine": Mine}
"""

SERIALIZER = """
from kernel_spec.serialization import Payload, SerializerBase


class Mine(SerializerBase):
    name = "mine"

    def encode(self, payload):
        note("encode")
        return Payload(payload.head[::-1], payload.buffers)

    def decode(self, head, buffers):
        note("decode")
        return Payload(bytes(head)[::-1], list(buffers))


@hookimpl
def kernel_serializers():
    return {"mine": Mine}
"""

METADATA_STORE = """
from kernel.defaults.metadata import LocalMetadataStore


class Mine(LocalMetadataStore):
    name = "mine"

    def put(self, table, key, value, *, overwrite=True):
        note("put")
        return super().put(table, key, value, overwrite=overwrite)

    def get(self, table, key):
        note("get")
        return super().get(table, key)


@hookimpl
def kernel_metadata_stores():
    return {"mine": Mine}
"""

SPILL_TARGET = """
from kernel.defaults.spill import DiskSpill


class Mine(DiskSpill):
    name = "mine"

    def write(self, object, data):
        note("write")
        return super().write(object, data)

    def read_into(self, uri, data):
        note("read_into")
        super().read_into(uri, data)


@hookimpl
def kernel_spill_targets():
    return {"mine": Mine}
"""

MEMORY_GUARD = """
from kernel.defaults.memory_guard import LocalMemoryGuard


class Mine(LocalMemoryGuard):
    name = "mine"

    def sample(self, now, limits, workers):
        note("sample")
        return super().sample(now, limits, workers)


@hookimpl
def kernel_memory_guards():
    return {"mine": Mine}
"""

ENVIRONMENT = """
from kernel.environments.variables import EnvironmentVariables


class Mine(EnvironmentVariables):
    field = "mine"

    def check(self, value):
        note("check")
        super().check(value)

    def build(self, prepared, place):
        note("build")
        return super().build(prepared, place)


@hookimpl
def kernel_environments():
    return {"mine": Mine}
"""

ACCELERATOR = """
from kernel_spec.accelerators import Device


class Mine:
    resource = "GPU"

    def detect(self, environment):
        note("detect")
        return [Device(0, "one"), Device(1, "two")]

    def isolate(self, devices, shares, environment):
        note("isolate")
        return {"MINE_VISIBLE": ",".join(map(str, devices))}


@hookimpl
def kernel_accelerators():
    return [Mine()]
"""

OBSERVER = """
class Mine:
    def observe(self, events):
        for event in events:
            note(f"{event.kind}:{event.state}")


@hookimpl
def kernel_observers():
    return [Mine()]
"""

METRICS_SINK = """
class Mine:
    interval = 0.1

    def take(self, now, families):
        note("take")

    def close(self):
        note("close")


@hookimpl
def kernel_metrics_sinks():
    return {"mine": Mine}
"""

HEAD_SERVICE = """
class Mine:
    name = "mine"

    def start(self, head):
        note("start")
        return {"serves": "nobody"}

    def stop(self):
        note("stop")


@hookimpl
def kernel_head_services():
    return {"mine": Mine}
"""

ENGINE = """
from kernel_local_mode.engine import open_session as open_local


def open_session(options):
    note("open_session")
    session = open_local(options)
    submit = session.runtime.submit

    def noted(*arguments, **more):
        note("submit")
        return submit(*arguments, **more)

    session.runtime.submit = noted
    return session
"""

REPLACED = {
    "engine": Replacement(ENGINE, {"open_session", "submit"}, variables={"KERNEL_ENGINE": "mine"}, in_program=True),
    "scheduler": Replacement(SCHEDULER, {"Grant"}, {"scheduler": "mine"}),
    "object_store": Replacement(OBJECT_STORE, {"Create", "Seal", "Pin"}, {"object_store": "mine"}),
    "serializer": Replacement(SERIALIZER, {"encode", "decode"}, {"serializer": "mine"}),
    "metadata_store": Replacement(METADATA_STORE, {"put", "get"}, {"metadata_store": "mine"}),
    "spill_target": Replacement(
        SPILL_TARGET, {"write", "read_into"}, {"spill_target": "mine", "object_store_memory": 4 * ARRAY_BYTES}
    ),
    "memory_guard": Replacement(MEMORY_GUARD, {"sample"}, variables={"KERNEL_MEMORY_GUARD": "mine"}),
    "environment": Replacement(
        ENVIRONMENT, {"check", "build"}, work={"runtime_env": {"mine": {"MINE_VISIBLE": "all"}}}, sees=("all",)
    ),
    "accelerator": Replacement(
        ACCELERATOR,
        {"detect", "isolate"},
        {"num_gpus": 2},
        {"KERNEL_PLUGINS": "mine,scheduler_fifo,store_plasma"},
        {"num_gpus": 1},
        ("0", "1"),
    ),
    "observer": Replacement(OBSERVER, {"task:FINISHED", "actor:ALIVE", "object:STORED"}),
    "metrics_sink": Replacement(METRICS_SINK, {"take", "close"}, variables={"KERNEL_METRICS_SINKS": "mine"}),
    "head_service": Replacement(HEAD_SERVICE, {"start", "stop"}, {"head_services": ("mine",)}),
}

AT_THE_END = {"stop", "close"}
"""What is noted when a session ends."""

NOT_IN_A_SESSION = {"node_provider", "cli_command"}
"""Kinds of plugins that no program meets: nothing asks for machines yet, and commands are for people."""


@kernel.remote
def task(values: np.ndarray, word: str) -> tuple[int, str, str]:
    return int(values.sum()), word, os.environ.get("MINE_VISIBLE", "")


@kernel.remote
class Adder:
    def __init__(self, values: np.ndarray) -> None:
        self.total = int(values.sum())

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def seen(self) -> str:
        return os.environ.get("MINE_VISIBLE", "")


def run_program(work: dict[str, Any]) -> set[str]:
    """Run a task and an actor on a stored object, and more objects than a small store holds.

    Returns what the task and the actor see of an environment, or of devices.
    """
    array = np.ones(ARRAY_BYTES // 8, np.int64)
    stored = kernel.put(array)
    total, word, seen = kernel.get(task.options(**work).remote(stored, "word"), timeout=SECONDS)
    assert (total, word) == (array.size, "word")
    actor = Adder.options(**work).remote(stored)
    assert kernel.get(actor.add.remote(2), timeout=SECONDS) == array.size + 2
    kept = [kernel.put(np.full(array.size, number, np.int64)) for number in range(6)]
    assert [int(kernel.get(ref, timeout=SECONDS)[-1]) for ref in kept] == list(range(6))
    query = get_runtime().query
    query("kv_put", "space", b"key", b"value", True)
    assert query("kv_get", "space", b"key") == b"value"
    return {seen, kernel.get(actor.seen.remote(), timeout=SECONDS)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where plugins are installed."""
    folder = tmp_path / "site"
    info = folder / "replaced-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: replaced\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("replaced_plugin", None)


def test_every_contract_is_replaced_here() -> None:
    assert REPLACED.keys() | NOT_IN_A_SESSION == KINDS.keys() | {"engine"}


@pytest.mark.parametrize("contract", REPLACED)
def test_a_session_with_another_implementation(
    contract: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacement, notes = REPLACED[contract], tmp_path / "notes"
    group, target = (
        ("plugins", "replaced_plugin") if contract != "engine" else ("engines", "replaced_plugin:open_session")
    )
    (site / "replaced-1.0.dist-info" / "entry_points.txt").write_text(f"[kernel.{group}]\nmine = {target}\n")
    (site / "replaced_plugin.py").write_text(HEAD.format(path=str(notes)) + textwrap.dedent(replacement.source))
    for variable, value in replacement.variables.items():
        monkeypatch.setenv(variable, value)

    def noted() -> dict[str, set[int]]:
        """Return what the replacement noted, and in which processes."""
        found: dict[str, set[int]] = {}
        for line in notes.read_text().splitlines() if notes.exists() else ():
            word, pid = line.split()
            found.setdefault(word, set()).add(int(pid))
        return found

    with running_session(num_cpus=2, **replacement.options) as session:
        assert session.info["local_mode"] == (contract == "engine")
        assert run_program(replacement.work) <= set(replacement.sees)
        wait_until(
            lambda: noted().keys() >= replacement.words - AT_THE_END, SECONDS, f"the use of the other {contract}"
        )
    assert noted().keys() >= replacement.words
    pids = set().union(*(noted()[word] for word in replacement.words))
    assert (pids == {os.getpid()}) == replacement.in_program
