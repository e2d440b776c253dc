"""What actors hold while they live: CPUs, custom resources, GPUs; who waits for it and why; environments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.exceptions import GetTimeoutError, OptionError
from kernel.testing.faults import wait_until

SECONDS = 120.0


@kernel.remote
class Holder:
    def pid(self) -> int:
        return os.getpid()

    def assigned(self) -> dict[str, float]:
        return kernel.get_runtime_context().get_assigned_resources()

    def gpus(self) -> tuple[list[int], str | None, dict[str, list[str]]]:
        context = kernel.get_runtime_context()
        return kernel.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES"), context.get_accelerator_ids()

    def resource_ids(self) -> dict[str, list[tuple[int, float]]]:
        return kernel.get_resource_ids()

    def wait_for(self, refs: list[Any]) -> Any:
        return kernel.get(refs[0])

    def leave(self) -> None:
        kernel.exit_actor()


@kernel.remote
def two() -> int:
    return 2


@kernel.remote(num_gpus=1)
def gpus_of_task() -> tuple[list[int], str | None]:
    return kernel.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@kernel.remote
def no_gpus() -> tuple[list[int], str | None]:
    return kernel.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize("name", ["CPU", "GPU", "slot"])
def test_fractions_fill_a_resource_exactly(
    fresh_session: Callable[..., Any], eventually: Callable[..., Any], name: str
) -> None:
    fresh_session(num_cpus=2, num_gpus=2, resources={"slot": 2})
    option = {"CPU": "num_cpus", "GPU": "num_gpus"}.get(name)
    holders = []
    for share in (0.1, 0.2, 0.7, 0.3, 0.3, 0.4):
        wanted: dict[str, Any] = {option: share} if option else {"resources": {name: share}}
        holders.append(Holder.options(**{"num_cpus": 0, **wanted}).remote())
    assert len(set(kernel.get([holder.pid.remote() for holder in holders], timeout=120))) == len(holders)
    assert free(name) == 0.0
    holders.clear()
    assert eventually(lambda: free(name) == 2.0)


def free(name: str) -> float:
    return kernel.available_resources().get(name, 0.0)


# -- CPUs and custom resources -----------------------------------------------------------------------------------------


@pytest.fixture(scope="class")
def session_with_resources() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        kernel.shutdown()
        with kernel.init(num_cpus=2, num_gpus=4, resources={"custom": 3}, memory=1 << 30):
            yield


@pytest.fixture
def all_free(session_with_resources: None, eventually: Callable[..., Any]) -> None:
    """What earlier tests held is free again."""
    total = kernel.cluster_resources()
    eventually(lambda: kernel.available_resources() == total)


@pytest.mark.usefixtures("all_free")
class TestResources:
    def test_resources_are_held_for_life_though_idle(self, eventually: Callable[..., Any]) -> None:
        holder = Holder.options(num_cpus=1, resources={"custom": 2}, memory=100 << 20).remote()
        held = kernel.get(holder.assigned.remote())
        assert held == {"CPU": 1.0, "custom": 2.0, "memory": float(100 << 20)}
        thrifty = Holder.options(memory=100 << 20).remote()
        assert kernel.get(thrifty.assigned.remote(), timeout=120) == {"memory": float(100 << 20)}, "no CPU beside"
        assert (free("CPU"), free("custom")) == (1.0, 1.0)
        kernel.kill(holder)
        eventually(lambda: (free("CPU"), free("custom")) == (2.0, 3.0))

    def test_resources_are_free_when_the_actor_has_left(self) -> None:
        holder = Holder.options(num_cpus=2).remote()
        kernel.get(holder.pid.remote())
        assert free("CPU") == 0
        with pytest.raises(kernel.exceptions.ActorDiedError):
            kernel.get(holder.leave.remote())
        assert free("CPU") == 2.0

    def test_plain_actor_holds_nothing_and_one_with_any_resource_a_cpu(self) -> None:
        plain = [Holder.remote() for _ in range(5)]
        assert kernel.get(plain[0].assigned.remote()) == {}
        some = Holder.options(resources={"custom": 1}).remote()
        assert kernel.get(some.assigned.remote()) == {"CPU": 1.0, "custom": 1.0}
        none = Holder.options(resources={"custom": 1}, num_cpus=0).remote()
        assert kernel.get(none.assigned.remote()) == {"custom": 1.0}

    def test_one_class_with_different_needs(self) -> None:
        shares = [Holder.options(resources={"custom": share}, num_cpus=0).remote() for share in (0.5, 1.5)]
        assert [kernel.get(s.assigned.remote())["custom"] for s in shares] == [0.5, 1.5]
        assert free("custom") == 1.0

    @pytest.mark.usefixtures("patient_explanations")
    def test_actor_waits_and_runs_when_there_is_room(self) -> None:
        first = Holder.options(num_cpus=2).remote()
        kernel.get(first.pid.remote())
        second = Holder.options(num_cpus=1).remote()
        ref = second.pid.remote()
        assert kernel.wait([ref], timeout=0.2) == ([], [ref])
        assert "PENDING_CREATION" in kernel.explain(second) and "CPU" in kernel.explain(ref)
        kernel.kill(first)
        assert kernel.get(ref, timeout=SECONDS)

    @pytest.mark.usefixtures("patient_explanations")
    def test_impossible_actor_waits_and_says_why(self) -> None:
        impossible = Holder.options(resources={"quantum": 1}, name="hopeful").remote()
        ref = impossible.pid.remote()
        with pytest.raises(GetTimeoutError, match=r"Holder\.pid\(\) waits for the actor.*quantum"):
            kernel.get(ref, timeout=0.3)
        assert "quantum" in kernel.explain(impossible) and "Holder 'hopeful'" in kernel.explain(impossible)
        kernel.set_resource("quantum", 2)
        assert kernel.get(ref, timeout=SECONDS)
        kernel.set_resource("quantum", 0)

    def test_killed_actor_waits_no_more(self) -> None:
        waiting = Holder.options(num_cpus=64).remote()
        ref = waiting.pid.remote()
        kernel.kill(waiting)
        with pytest.raises(kernel.exceptions.ActorDiedError, match="killed"):
            kernel.get(ref, timeout=SECONDS)

    def test_blocked_actor_gives_its_cpu_back_meanwhile(self, eventually: Callable[..., Any]) -> None:
        holder = Holder.options(num_cpus=2).remote()
        assert kernel.get(holder.wait_for.remote([two.remote()]), timeout=SECONDS) == 2
        eventually(lambda: free("CPU") == 0)  # the result is here before the node has heard of the end of the wait

    def test_blocked_constructor_gives_its_cpu_back_meanwhile(self) -> None:
        @kernel.remote(num_cpus=2)
        class Early:
            def __init__(self) -> None:
                self.value = kernel.get(two.remote())

            def read(self) -> int:
                return self.value

        assert kernel.get(Early.remote().read.remote(), timeout=SECONDS) == 2

    def test_restarted_actor_takes_its_resources_again(self) -> None:
        holder = Holder.options(num_cpus=2, max_restarts=1).remote()
        first = kernel.get(holder.pid.remote())
        kernel.kill(holder, no_restart=False)
        assert kernel.get(holder.pid.remote(), timeout=SECONDS) != first
        assert kernel.get(holder.assigned.remote()) == {"CPU": 2.0}
        assert free("CPU") == 0

    def test_resources_that_can_not_be_are_refused(self) -> None:
        with pytest.raises(OptionError, match="num_gpus must be a whole number or at most 1"):
            Holder.options(num_gpus=1.5).remote()
        with pytest.raises(OptionError, match="must be given as num_cpus=1"):
            Holder.options(resources={"CPU": 1}).remote()
        with pytest.raises(OptionError, match="num_cpus must be"):
            Holder.options(num_cpus=-1)

    # -- GPUs ----------------------------------------------------------------------------------------------------------

    def test_declared_gpus_are_assigned_for_life_and_shown(self) -> None:
        holders = [Holder.options(num_gpus=count, num_cpus=0).remote() for count in (1, 2)]
        (one, shown, by_name), (pair, shown_pair, _) = kernel.get([holder.gpus.remote() for holder in holders])
        assert len(one) == 1 and len(pair) == 2 and not set(one) & set(pair)
        assert shown == str(one[0]) and shown_pair == ",".join(map(str, pair))
        assert by_name == {"GPU": [str(one[0])]}
        assert free("GPU") == 1.0
        [[last, _]] = kernel.get([gpus_of_task.remote()])
        assert {*one, *pair, *last} == {0, 1, 2, 3}
        assert free("GPU") >= 0

    def test_no_gpus_no_variable(self) -> None:
        assert kernel.get(Holder.remote().gpus.remote()) == ([], None, {})
        assert kernel.get(no_gpus.remote()) == ([], None)
        kernel.get(gpus_of_task.remote())
        assert kernel.get([no_gpus.remote() for _ in range(4)]) == [([], None)] * 4
        assert kernel.get_gpu_ids() == []

    def test_shares_of_one_device(self) -> None:
        quarters = [Holder.options(num_gpus=0.25, num_cpus=0).remote() for _ in range(4)]
        found = kernel.get([quarter.gpus.remote() for quarter in quarters])
        assert {tuple(ids) for ids, _, _ in found} == {tuple(found[0][0])}, "shares of one device come first"
        assert free("GPU") == 3.0
        assert kernel.get(quarters[0].resource_ids.remote()) == {"GPU": [(found[0][0][0], 0.25)]}

    def test_more_gpus_than_there_are_wait(self) -> None:
        holder = Holder.options(num_gpus=3, num_cpus=0).remote()
        kernel.get(holder.pid.remote())
        ref = Holder.options(num_gpus=2, num_cpus=0).remote().pid.remote()
        assert kernel.wait([ref], timeout=0.2)[0] == []
        kernel.kill(holder)
        assert kernel.get(ref, timeout=SECONDS)

    def test_blocked_actor_keeps_its_gpus(self, eventually: Callable[..., Any], tmp_path: Path) -> None:
        holder = Holder.options(num_gpus=4, num_cpus=2).remote()
        kernel.get(holder.pid.remote())
        waiting = holder.wait_for.remote([wait_for_file.remote(tmp_path / "asked")])
        eventually(lambda: free("CPU") == 1)
        assert free("GPU") == 0
        (tmp_path / "asked").touch()
        kernel.get(waiting, timeout=SECONDS)


@kernel.remote
def wait_for_file(path: Path) -> None:
    wait_until(path.exists, SECONDS, f"the making of {path}")


# -- environments ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
class TestEnvironments:
    def test_variables_of_one_actor_are_its_own(self) -> None:
        @kernel.remote
        class Environment:
            def read(self, name: str) -> str | None:
                return os.environ.get(name)

        one = Environment.options(runtime_env={"env_vars": {"FLAVOUR": "one"}}).remote()
        other = Environment.options(runtime_env={"env_vars": {"FLAVOUR": "two"}}).remote()
        plain = Environment.remote()
        found = kernel.get([actor.read.remote("FLAVOUR") for actor in (one, other, plain)])
        assert found == ["one", "two", None]

    def test_working_directory_and_modules(self, tmp_path: Path) -> None:
        (tmp_path / "helper_of_actor.py").write_text("ANSWER = 42\n")
        (tmp_path / "data.txt").write_text("data")

        @kernel.remote(runtime_env={"working_dir": str(tmp_path)})
        class InDirectory:
            def read(self) -> tuple[str, int]:
                import helper_of_actor  # type: ignore[import-not-found]

                return Path("data.txt").read_text(), helper_of_actor.ANSWER

        assert kernel.get(InDirectory.remote().read.remote()) == ("data", 42)

    def test_environment_is_there_after_a_restart(self) -> None:
        @kernel.remote(max_restarts=1, runtime_env={"env_vars": {"FLAVOUR": "again"}})
        class Environment:
            def read(self) -> str | None:
                return os.environ.get("FLAVOUR")

        actor = Environment.remote()
        assert kernel.get(actor.read.remote()) == "again"
        kernel.kill(actor, no_restart=False)
        assert kernel.get(actor.read.remote(), timeout=SECONDS) == "again"
