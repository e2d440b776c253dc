"""Checkpoints: an algorithm out of a directory alone, its modules, and what is said of damaged ones."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQN, DQNConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.checkpoints.settings_file import read_settings, write_settings
from kernel_rllib.checkpoints.values import Reader, Writer
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.errors import CheckpointError, ConfigError, ModuleError
from kernel_rllib.testing.counting import Counting
from kernel_rllib.training.algorithm import Algorithm

GOLDEN = Path(__file__).parent / "golden" / "ppo_format_1"
MODULE = "learner_group/learner/rl_module/default_policy"


class OwnPPO(PPO):
    """An algorithm of a user's own."""


def config(**env_config: Any) -> PPOConfig:
    """Return small settings."""
    made = PPOConfig().environment(Counting, env_config=env_config)
    made.env_runners(num_envs=2, num_env_runners=0).debugging(seed=0)
    return made.training(train_batch_size=32, minibatch_size=16, num_epochs=1, model={"fcnet_hiddens": [4]})


def saved(where: Path, settings: Any = None) -> tuple[Any, str]:
    """Return an algorithm that has trained once, and the path of its checkpoint."""
    algorithm = (settings or config()).build()
    algorithm.train()
    return algorithm, algorithm.save(str(where))


def test_a_directory_is_enough_and_training_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    algorithm, path = saved(tmp_path)
    again = Algorithm.from_checkpoint(path, trust=True)
    assert type(again) is PPO and again.iteration == 1
    for _ in range(2):
        assert algorithm.train()["hist_stats"] == again.train()["hist_stats"]
    assert algorithm.learner.weights.tobytes() == again.learner.weights.tobytes()


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process become longer, as on a disk without room."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def bytes_of(directory: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a directory."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_a_checkpoint_is_written_whole_or_not_at_all_and_the_older_one_stays(tmp_path: Path) -> None:
    algorithm, path = saved(tmp_path / "old")
    (tmp_path / "old" / "notes.txt").write_text("a file of somebody else")
    before = bytes_of(tmp_path / "old")
    algorithm.train()
    sizes = sorted({len(data) for data in before.values()})
    for room in (*sizes[:-1], sizes[-1] - 1):
        for name in ("old", "new"):
            with room_for(room), pytest.raises(CheckpointError, match=rf"/{name}: .+: File too large. Nothing of it"):
                algorithm.save(str(tmp_path / name))
    assert bytes_of(tmp_path / "old") == before and not (tmp_path / "new").exists()
    assert Algorithm.from_checkpoint(path).iteration == 1
    with room_for(100), pytest.raises(CheckpointError, match="to .*/checkpoint_000002: .+: File too large"):
        algorithm.save()
    assert not os.path.exists(os.path.join(algorithm.logdir, "checkpoint_000002"))

    (tmp_path / "old" / ".unfinished_save_killed" / "new").mkdir(parents=True)
    assert algorithm.save(path) == path and Algorithm.from_checkpoint(path).iteration == 2
    assert {*bytes_of(tmp_path / "old")} == {*before}


def test_an_exchange_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, _ = saved(tmp_path)
    before = bytes_of(tmp_path)
    algorithm.train()
    rename, renamed = os.rename, []

    def failing(source: Any, target: Any) -> None:
        renamed.append(source)
        if len(renamed) == 9:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(CheckpointError, match="can't be written"):
        algorithm.save(str(tmp_path))
    assert bytes_of(tmp_path) == before


def test_exports_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    algorithm = config().build()
    for export in (algorithm.export_policy_checkpoint, algorithm.export_policy_model):
        with room_for(150), pytest.raises(CheckpointError, match="policy 'default_policy' can't .*/x: weights.np.*too"):
            export(str(tmp_path / "x"))
        assert not (tmp_path / "x").exists()


def test_without_trust_nothing_is_unpickled_and_environments_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, path = saved(tmp_path)
    monkeypatch.setattr("pickle.loads", None)
    monkeypatch.setattr("pickle.load", None)
    again = PPO.from_checkpoint(path)
    assert again.learner.weights.tobytes() == algorithm.learner.weights.tobytes()
    assert again.runners.local.sampler._steps_before.tolist() == [16, 16]
    result = again.train()
    assert (result["training_iteration"], result["timesteps_total"]) == (2, 64)


def test_other_settings_can_take_the_places_of_saved_ones(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    again = Algorithm.from_checkpoint(path, config={"num_envs": 4, "lr": 1e-4})
    assert (again.config.lr, again.config.total_envs) == (1e-4, 4)
    assert again.train()["timesteps_total"] == 64


@pytest.mark.parametrize(
    "form", ["checkpoint_000010/checkpoint-10", "checkpoint_10", "checkpoint_000010/algorithm.json"]
)
def test_older_forms_of_paths_are_understood(tmp_path: Path, form: str) -> None:
    saved(tmp_path / "checkpoint_000010")
    assert Algorithm.from_checkpoint(tmp_path / form).iteration == 1


def test_a_path_has_the_checkpoint_that_newer_programs_ask_for(tmp_path: Path) -> None:
    algorithm, path = saved(tmp_path / "a")
    assert path.checkpoint.path == path == str(tmp_path / "a")
    assert Algorithm.from_checkpoint(path.checkpoint).iteration == 1
    other = algorithm.save_to_path(tmp_path / "b")
    fresh = config().build()
    fresh.restore_from_path(other)
    assert fresh.iteration == 1


def test_algorithms_of_ones_own_come_back_as_such(tmp_path: Path) -> None:
    algorithm = OwnPPO(config())
    path = algorithm.save(str(tmp_path))
    assert type(Algorithm.from_checkpoint(path)) is OwnPPO
    with pytest.raises(CheckpointError, match=r"is a checkpoint of OwnPPO, not of DQN: call OwnPPO\.from_checkpoint"):
        DQN.from_checkpoint(path)


def test_a_state_is_enough_as_well() -> None:
    algorithm = config().build()
    algorithm.train()
    again = Algorithm.from_state(algorithm.get_state())
    assert algorithm.train()["hist_stats"] == again.train()["hist_stats"]
    with pytest.raises(CheckpointError, match="the state has no config and no algorithm_class"):
        Algorithm.from_state({})


# -- settings --------------------------------------------------------------------------------------------------------


def test_what_can_not_be_imported_needs_trust(tmp_path: Path) -> None:
    factor = 3
    settings = config().environment(lambda env_config: Counting({"length": factor}))
    _, path = saved(tmp_path, settings)
    with pytest.raises(CheckpointError, match=r"settings\.json: setting 'env' can't be read: .* Say from_checkpoint"):
        Algorithm.from_checkpoint(path)
    assert Algorithm.from_checkpoint(path, trust=True).train()["episode_len_mean"] == 3
    assert Algorithm.from_checkpoint(path, config={"env": Counting}).train()["env_runners"]["episode_len_max"] == 4


def test_what_can_not_be_pickled_does_not_keep_from_saving(tmp_path: Path) -> None:
    _, path = saved(tmp_path, config(lock=threading.Lock()))
    with pytest.raises(CheckpointError, match=r"setting 'env_config' can't be read: <unlocked _thread.lock .*pickled"):
        Algorithm.from_checkpoint(path, trust=True)
    assert Algorithm.from_checkpoint(path, config={"env_config": {}}).iteration == 1


def test_values_come_back_as_what_they_were() -> None:
    space = Counting({}).observation_space
    values = {
        "tuple": (1, (2.5, None)),
        "set": {"a", "b"},
        "keys": {1: "one", ("a", 2): "two", "@path": "x"},
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "number": np.float32(1.5),
        "space": space,
        "class": Counting,
        "function": saved,
        "spec": PolicySpec(None, space, None, {"gamma": 0.9}),
        "config": config().training(lr=1e-3),
    }
    write = Writer()
    written = json.loads(json.dumps(write(values)))
    assert not write.pickles
    read = Reader(lambda number: None)(written)
    np.testing.assert_array_equal(read.pop("array"), values.pop("array"))
    assert read == values and read["config"].lr == 1e-3 and type(read["tuple"]) is tuple


@dataclasses.dataclass(frozen=True)
class Options:
    """What a module may be made with."""

    widths: tuple[int, ...] = (1,)


def test_dataclasses_come_back() -> None:
    write = Writer()
    assert Reader(lambda number: None)(json.loads(json.dumps(write(Options((2, 3)))))) == Options((2, 3))


def test_classes_of_the_program_that_runs_are_found_there_or_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    mine = type("Mine", (Counting,), {"__module__": "__main__"})
    monkeypatch.setattr(__main__, "Mine", mine, raising=False)
    write_settings(tmp_path, PPO, config().environment(mine))
    assert read_settings(tmp_path).config.env is mine
    monkeypatch.delattr(__main__, "Mine")
    with pytest.raises(CheckpointError, match="trust=True"):
        read_settings(tmp_path)
    assert issubclass(read_settings(tmp_path, trust=True).config.env, Counting)


# -- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("algorithm.json", None, "is no checkpoint of an algorithm: there is no algorithm.json"),
        ("algorithm.json", "{", r"algorithm\.json is damaged"),
        ("algorithm.json", '{"format": 99}', "has the format 99"),
        ("settings.json", None, r"has no settings\.json, so what it is a checkpoint of is not known"),
        ("settings.json", "[]", r"settings\.json is damaged"),
        ("settings.json", '{"algorithm": {"@later": 1}', r"settings\.json is damaged"),
        ("algorithm/tree.json", "{", r"tree\.json is damaged"),
        (f"{MODULE}/weights.npy", "x", r"weights\.npy can't be read"),
        (f"{MODULE}/weights.npy", None, r"weights\.npy can't be read"),
        ("env_runners/tree.json", None, r"env_runners is no checkpoint: there is no tree\.json"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str | None, said: str) -> None:
    shutil.copytree(GOLDEN, tmp_path / "copy")
    path = tmp_path / "copy" / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=said):
        Algorithm.from_checkpoint(tmp_path / "copy")


def test_what_is_no_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"missing is no checkpoint of an algorithm"):
        Algorithm.from_checkpoint(tmp_path / "missing")
    with pytest.raises(CheckpointError, match="3 is no path of a checkpoint"):
        Algorithm.from_checkpoint(3)
    with pytest.raises(ConfigError, match="checkpoints are read from local files"):
        Algorithm.from_checkpoint(GOLDEN, filesystem=object())
    with pytest.raises(KeyError, match="has no policy 'other'; it has default_policy"):
        Algorithm.from_checkpoint(GOLDEN, policy_ids=["other"])


def test_classes_that_are_gone_are_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "copy")
    file = tmp_path / "copy" / "settings.json"
    settings = json.loads(file.read_text())
    settings["settings"]["env"] = {"@path": "no_such_module.Env"}
    file.write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=r"setting 'env' can't be read: there is no no_such_module\.Env here"):
        Algorithm.from_checkpoint(tmp_path / "copy")


def test_the_first_format_is_read_for_ever() -> None:
    algorithm = Algorithm.from_checkpoint(GOLDEN)
    expected = json.loads((GOLDEN / "expected.json").read_text())
    outputs = SavedModule.from_checkpoint(GOLDEN / MODULE)
    assert isinstance(outputs, SavedModule)
    found = outputs.forward_inference({"obs": np.array(expected["obs"])})["action_dist_inputs"]
    np.testing.assert_allclose(found, expected["action_dist_inputs"], rtol=1e-5)
    assert (algorithm.iteration, algorithm.env_steps_sampled) == (2, 64)
    assert algorithm.train()["training_iteration"] == 3


# -- parameters and modules ------------------------------------------------------------------------------------------


def test_weights_are_set_where_they_are_read() -> None:
    one, other = config().build(), config().debugging(seed=1).build()
    other.set_weights(one.get_weights())
    assert one.learner.weights.tobytes() == other.learner.weights.tobytes()
    np.testing.assert_array_equal(other.runners.local.sampler._vector, one.learner.weights)
    weights = one.get_weights(["default_policy"])["default_policy"]
    assert weights["policy/head/bias"].shape == (3,)
    weights["policy/head/bias"][:] = 7
    assert not (one.get_weights()["default_policy"]["policy/head/bias"] == 7).any()
    with pytest.raises(KeyError, match="there is no policy 'defualt_policy'; did you mean 'default_policy'"):
        one.get_weights(["defualt_policy"])
    with pytest.raises(ModuleError, match="the value of parameter .* is missing"):
        one.set_weights({"default_policy": {}})


def test_a_module_acts_without_its_algorithm(tmp_path: Path) -> None:
    algorithm, path = saved(tmp_path)
    obs = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    outputs = algorithm.learner.evaluate(lambda nn, p: algorithm.learner.module.infer(nn, p, {"obs": obs}))
    for place in (path, f"{path}/learner_group/learner/rl_module"):
        modules = SavedModule.from_checkpoint(place)
        assert isinstance(modules, dict)
        found = modules["default_policy"].forward_inference({"obs": obs})
        np.testing.assert_allclose(found["action_dist_inputs"], outputs["action_dist_inputs"], rtol=1e-6)
    one = SavedModule.from_checkpoint(path, "default_policy")
    assert isinstance(one, SavedModule) and "vf_preds" in one.forward_train({"obs": obs})
    assert one.get_state()["policy/head/bias"].shape == (3,)
    with pytest.raises(CheckpointError, match="has no module 'other'; it has default_policy"):
        SavedModule.from_checkpoint(path, "other")
    with pytest.raises(ModuleError, match=r"ActorCritic can't take observations \[1, 5\]"):
        one.forward_inference({"obs": np.zeros((1, 5))})
    with pytest.raises(ModuleError, match="acts on the column 'obs', and was given state"):
        one.forward_inference({"state": np.zeros((1, 5))})


def test_a_policy_is_written_alone(tmp_path: Path) -> None:
    settings = DQNConfig().environment(Counting).env_runners(num_env_runners=0)
    algorithm = settings.training(num_atoms=3, v_min=0, v_max=9, model={"fcnet_hiddens": [4]}).build()
    algorithm.export_policy_checkpoint(str(tmp_path))
    module = SavedModule.from_checkpoint(tmp_path)
    assert isinstance(module, SavedModule)
    outputs = module.forward_inference({"obs": np.zeros((2, 2))})
    np.testing.assert_array_equal(outputs["actions"], outputs["q_values"].argmax(axis=1))
    with pytest.raises(KeyError, match="there is no policy 'p1'"):
        algorithm.export_policy_checkpoint(str(tmp_path), policy_id="p1")


def test_a_module_that_remembers_is_given_its_memory_back(tmp_path: Path) -> None:
    settings = config().training(model={"use_lstm": True, "lstm_cell_size": 3})
    module = SavedModule.from_checkpoint(saved(tmp_path, settings)[1], "default_policy")
    assert isinstance(module, SavedModule)
    first = module.forward_inference({"obs": np.ones((1, 2))})
    second = module.forward_inference({"obs": np.ones((1, 2)), "state_in": first["state_out"]})
    assert (first["action_dist_inputs"] != second["action_dist_inputs"]).any()


def test_modules_that_no_text_describes_say_so(tmp_path: Path) -> None:
    algorithm, path = saved(tmp_path)
    algorithm.learner.module.made_with = ((lambda: None,), {})
    path = algorithm.save(str(tmp_path))
    with pytest.raises(CheckpointError, match=r"what no text can have.*Load it by Algorithm\.from_checkpoint"):
        SavedModule.from_checkpoint(os.path.join(path, MODULE))
    with pytest.raises(CheckpointError, match=r"has no module\.json: give the directory of a module"):
        SavedModule.from_checkpoint(tmp_path / "algorithm")


def test_the_module_of_an_algorithm_acts_with_the_parameters_of_now() -> None:
    algorithm = config().build()
    module = algorithm.get_module()
    before = module.forward_inference({"obs": np.zeros((1, 2), np.float32)})["action_dist_inputs"]
    algorithm.train()
    for asked in (module, algorithm.get_module("default_policy")):
        logits = asked.forward_inference({"obs": np.zeros((1, 2), np.float32)})["action_dist_inputs"]
        assert logits.shape == (1, 3) and not np.array_equal(logits, before)
        assert algorithm.compute_single_action(np.zeros(2, np.float32), explore=False) == logits.argmax()
    assert module.table == algorithm.learner.module.table and {*module.get_state()} == {
        *algorithm.get_weights()["default_policy"]
    }
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = module.no_such_thing
    with pytest.raises(KeyError, match="no policy 'other'"):
        algorithm.get_module("other")
