"""Built-in loads by name, for any number of nodes and tasks. `kernel simulate --save` shows one as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_simulation.distributions import Distribution
from kernel_simulation.load import ACTORS, DRAIN, FAIL, GANGS, JOIN, RESTART_HEAD, TASKS, Change, Load, NodeKind, Work

CPUS = 8
"""CPUs of each node in the scenarios."""


def scenario(name: str, nodes: int, tasks: int) -> Load:
    """Return the built-in load `name` for `nodes` nodes and about `tasks` pieces of work. Raises KeyError."""
    _, make = SCENARIOS[name]
    return make(nodes, tasks)


def _lognormal(mean: float, sigma: float = 1.0) -> Distribution:
    return Distribution("lognormal", {"mean": mean, "sigma": sigma})


def _poisson(count: int, seconds: float, begin: float = 0.0) -> Distribution:
    return Distribution("poisson", {"rate": count / seconds, "begin": begin})


def _plain_nodes(nodes: int, fails_every: float = 0.0, back_after: float = 0.0) -> NodeKind:
    return NodeKind("plain", nodes, {"CPU": CPUS, "memory": 32e9}, {}, fails_every, back_after)


def _full_seconds(nodes: int, tasks: int, mean: float, cpus: float = 1.0) -> float:
    """Return how long the tasks keep all CPUs busy."""
    return max(10.0, tasks * mean * cpus / (nodes * CPUS))


def _processes(nodes: int) -> int:
    return max(1, min(64, nodes // 8))


def _burst(nodes: int, tasks: int) -> Load:
    work = Work("burst", TASKS, tasks, _lognormal(10.0, 0.5), processes=_processes(nodes), preemptible=True)
    return Load("burst", (_plain_nodes(nodes),), (work,))


def _gangs(nodes: int, tasks: int) -> Load:
    gpus = NodeKind("gpu", nodes, {"CPU": 32, "GPU": 8, "memory": 256e9})
    small, large = max(1, tasks // 100), max(1, tasks // 400)
    width = max(1, min(nodes // 4, 16))
    bundle = {"CPU": 4.0, "GPU": 8.0}
    gpu_seconds = small * (8 * 30 + 4 * 20) + large * 8 * width * 60 + tasks * 2
    seconds = max(10.0, gpu_seconds / (8 * nodes))
    work = (
        Work(
            "pack",
            GANGS,
            small,
            _lognormal(30.0),
            _poisson(small, seconds),
            bundles=({"GPU": 2.0},) * 4,
            strategy="PACK",
        ),
        Work(
            "one node",
            GANGS,
            small,
            _lognormal(20.0),
            _poisson(small, seconds),
            bundles=({"GPU": 1.0},) * 4,
            strategy="STRICT_PACK",
        ),
        Work(
            "wide",
            GANGS,
            large,
            _lognormal(60.0),
            _poisson(large, seconds),
            bundles=(bundle,) * width,
            strategy="STRICT_SPREAD",
        ),
        Work(
            "single",
            TASKS,
            max(1, tasks - 2 * small - large),
            _lognormal(4.0),
            _poisson(tasks, seconds),
            resources={"CPU": 1.0, "GPU": 0.5},
            processes=_processes(nodes),
            preemptible=True,
        ),
    )
    return Load("gangs", (gpus,), work)


def _mixed(nodes: int, tasks: int) -> Load:
    gpu_nodes = max(1, nodes // 10)
    kinds = (
        _plain_nodes(max(1, nodes - gpu_nodes)),
        NodeKind("gpu", gpu_nodes, {"CPU": 2 * CPUS, "GPU": 4, "memory": 128e9}, {"accelerator": "gpu"}),
    )
    short, long, urgent = max(1, tasks * 8 // 10), max(1, tasks // 10), max(1, tasks // 50)
    on_gpu, gangs, actors = max(1, tasks // 50), max(1, tasks // 2000), max(1, nodes // 2)
    seconds = _full_seconds(nodes, tasks, 2.2)
    processes = _processes(nodes)
    work = (
        Work(
            "short",
            TASKS,
            short,
            _lognormal(1.0),
            _poisson(short, seconds),
            job="a",
            processes=processes,
            preemptible=True,
        ),
        Work(
            "long",
            TASKS,
            long,
            _lognormal(10.0, 0.5),
            _poisson(long, seconds / 2),
            resources={"CPU": 1.0, "memory": 4e9},
            job="b",
            processes=processes,
            hints={"priority": -1},
            preemptible=True,
        ),
        Work("urgent", TASKS, urgent, _lognormal(1.0), _poisson(urgent, seconds), job="c", hints={"priority": 10}),
        Work(
            "gpu",
            TASKS,
            on_gpu,
            _lognormal(4.0),
            _poisson(on_gpu, seconds),
            resources={"CPU": 1.0, "GPU": 1.0},
            job="b",
        ),
        Work(
            "nested", TASKS, short // 8 or 1, _lognormal(2.0), _poisson(short // 8 or 1, seconds), job="a", blocked=0.5
        ),
        Work("services", ACTORS, actors, _lognormal(seconds / 2, 0.5), job="d"),
        Work(
            "training",
            GANGS,
            gangs,
            _lognormal(30.0),
            _poisson(gangs, seconds),
            bundles=({"CPU": 4.0},) * min(4, nodes),
            strategy="SPREAD",
            job="e",
        ),
    )
    return Load("mixed", kinds, work)


def _two_jobs(nodes: int, tasks: int) -> Load:
    small = max(1, tasks // 50)
    large = max(1, tasks - small)
    seconds = _full_seconds(nodes, tasks, 10.0)
    work = (
        Work("large", TASKS, large, _lognormal(10.0, 0.5), job="large", processes=_processes(nodes), preemptible=True),
        Work(
            "small",
            TASKS,
            small,
            _lognormal(2.0),
            _poisson(small, seconds / 2, seconds / 10),
            job="small",
            processes=max(1, nodes // 100),
            preemptible=True,
        ),
    )
    return Load("two-jobs", (_plain_nodes(nodes),), work)


def _churn(nodes: int, tasks: int) -> Load:
    seconds = _full_seconds(nodes, tasks, 5.0)
    some, group = max(1, nodes // 20), max(1, tasks // 1000)
    work = (
        Work(
            "tasks",
            TASKS,
            tasks,
            _lognormal(5.0),
            _poisson(tasks, seconds),
            processes=_processes(nodes),
            preemptible=True,
            retries=10,
        ),
        Work("actors", ACTORS, max(1, nodes // 4), _lognormal(seconds / 2, 0.5), retries=10),
        Work(
            "gangs",
            GANGS,
            group,
            _lognormal(20.0),
            _poisson(group, seconds),
            bundles=({"CPU": 1.0},) * min(4, nodes),
            strategy="SPREAD",
            retries=100,
        ),
    )
    changes = (
        Change(seconds * 0.2, JOIN, count=some),
        Change(seconds * 0.3, DRAIN, count=some),
        Change(seconds * 0.5, RESTART_HEAD),
        Change(seconds * 0.6, FAIL, count=some),
    )
    return Load("churn", (_plain_nodes(nodes, fails_every=seconds * 5, back_after=10.0),), work, changes)


SCENARIOS: Mapping[str, tuple[str, Callable[[int, int], Load]]] = {
    "burst": ("all tasks at once, and nothing else", _burst),
    "gangs": ("placement groups of all strategies beside single tasks, on nodes with GPUs", _gangs),
    "mixed": ("short, long and urgent tasks, GPUs, nested calls, actors and gangs of five jobs", _mixed),
    "two-jobs": ("a large job that wants everything, and a small one that comes later", _two_jobs),
    "churn": ("nodes fail, come back, join and drain, and the head restarts", _churn),
}
"""Name to what it is, and what makes it."""
