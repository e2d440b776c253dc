"""Which GPUs trials see. The devices are on paper: the session says that it has two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import tune


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        kernel.shutdown()
        with kernel.init(num_cpus=2, num_gpus=2, log_to_driver=False):
            yield
    kernel.shutdown()


def seen(trainable: Any, **arguments: Any) -> list[str]:
    trials = tune.run(trainable, verbose=0, return_trials=True, **arguments)
    return [trial.last_result["seen"] for trial in trials]


def sees(config: dict[str, Any]) -> None:
    tune.report({"seen": os.environ.get("CUDA_VISIBLE_DEVICES", "everything")})


class Sees(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.seen = os.environ.get("CUDA_VISIBLE_DEVICES", "everything")

    def step(self) -> dict[str, Any]:
        return {"seen": self.seen, "done": True}

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True


class Meets(tune.Trainable):
    """Waits for the other trial, so that both run at once."""

    def step(self) -> dict[str, Any]:
        Path("..", f"here_{self.config['number']}").touch()
        both_are_here = len(list(Path("..").glob("here_*"))) == 2
        return {"seen": os.environ.get("CUDA_VISIBLE_DEVICES", "everything"), "done": both_are_here}


@pytest.mark.parametrize("trainable", [sees, Sees])
@pytest.mark.parametrize("reuse", [False, True])
def test_a_trial_that_asks_for_no_gpu_sees_none(results: Path, trainable: Any, reuse: bool) -> None:
    assert seen(trainable, num_samples=3, reuse_actors=reuse) == ["", "", ""]
    assert seen(trainable, resources_per_trial={"cpu": 1, "extra_gpu": 1}) == [""]


def test_a_trial_sees_the_gpus_that_it_asks_for(results: Path) -> None:
    space = {"number": tune.grid_search([1, 2])}
    assert sorted(seen(Meets, config=space, resources_per_trial={"cpu": 1, "gpu": 1})) == ["0", "1"]
    assert seen(sees, resources_per_trial={"gpu": 2}) == ["0,1"]
    assert set(seen(sees, resources_per_trial={"gpu": 0.5}, num_samples=3)) <= {"0", "1"}


def test_a_program_in_local_mode_keeps_its_gpus(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of this module: it ends the session that the others share."""
    kernel.shutdown()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with kernel.init(local_mode=True):
        assert seen(sees, name="local") == [""] and os.environ["CUDA_VISIBLE_DEVICES"] == "3"
        assert tune.get_context().get_trial_id() is None and not Meets().logdir.startswith(str(results))
