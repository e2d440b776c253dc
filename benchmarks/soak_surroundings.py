"""Waves for the soak of what is around tasks: placement groups, environments, spilling, named bytes, questions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

import kernel
from benchmarks.outcome import Outcome
from benchmarks.soak_tasks import add


@kernel.remote(max_retries=-1)
def read_variable(name: str) -> str:
    """Return an environment variable."""
    return os.environ[name]


@kernel.remote(max_retries=-1)
def read_file(name: str) -> str:
    """Return what is in a file of the working directory."""
    return Path(name).read_text()


def groups(dice: random.Random, outcome: Outcome) -> None:
    """A placement group with tasks in it, which is then removed."""
    bundles = [{"CPU": 1.0}] * dice.randrange(1, 4)
    group = kernel.placement_group(bundles, strategy=dice.choice(("PACK", "SPREAD")))
    strategy = kernel.PlacementGroupSchedulingStrategy(placement_group=group)
    try:
        for value in range(5):
            outcome.check("placement group", add.options(scheduling_strategy=strategy).remote(value, 1), value + 1)
    finally:
        kernel.remove_placement_group(group)


def environments(dice: random.Random, outcome: Outcome, folder: Path) -> None:
    """Tasks with variables, and with a working directory, of which there are a few."""
    kind = dice.randrange(4)
    variables = {"env_vars": {"SOAK": str(kind)}}
    outcome.check("variables", read_variable.options(runtime_env=variables).remote("SOAK"), str(kind))
    directory = folder / f"work{kind}"
    directory.mkdir(exist_ok=True)
    (directory / "text").write_text(f"of {kind}")
    environment = {"working_dir": str(directory)}
    outcome.check("working directory", read_file.options(runtime_env=environment).remote("text"), f"of {kind}")


def spilled(dice: random.Random, outcome: Outcome) -> None:
    """More than the store holds, read back."""
    values = [dice.randrange(1000) for _ in range(9)]
    refs = [kernel.put(np.full(5 << 20, value)) for value in values]
    for value, ref in zip(values, refs, strict=True):
        outcome.compare("spilled", [int(part) for part in kernel.get(ref)[[0, -1]]], [value, value])


def named_bytes(dice: random.Random, outcome: Outcome) -> None:
    """Bytes by name, kept by the head."""
    store, key = kernel.KeyValue("soak"), f"key {dice.randrange(100)}"
    value = dice.randbytes(dice.randrange(10_000))
    store.put(key, value)
    outcome.compare("named bytes", store.get(key) == value, True)
    if dice.random() < 0.5:
        store.delete(key)


def questions(dice: random.Random, outcome: Outcome, root: str, folder: Path) -> None:
    """What people and tools ask a session about itself; the timeline by its command, which is a program of its own."""
    outcome.compare("questions", len(kernel.nodes()), 1)
    kernel.available_resources()
    kernel.errors()
    kernel.explain(add.remote(1))
    command = [sys.executable, "-m", "kernel.cli.main", "timeline", str(folder / "timeline.json")]
    done = subprocess.run(command, env={**os.environ, "KERNEL_TMPDIR": root}, capture_output=True, text=True)
    outcome.compare("timeline", done.stdout.startswith("Wrote ") or done.stderr, True)
