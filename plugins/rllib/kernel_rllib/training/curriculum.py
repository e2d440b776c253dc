"""Curricula: what environments are to do next, by the results of training (`env_task_fn`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import cloudpickle

from kernel_rllib.checkpoints.values import Reader, Writer
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.each import WithContext
from kernel_rllib.envs.task import is_same, set_tasks, settable
from kernel_rllib.errors import CallbackError, CheckpointError, EnvError
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint

Made: TypeAlias = Blueprint | MultiAgentBlueprint
TaskFunction = Callable[[Any, Any, EnvContext], Any]


class Curriculum:
    """Asks a function for the task of each environment, and sets it there.

    Attributes:
        tasks: The tasks that were set, by the numbers of lanes. Runners that begin later begin with them.
    """

    def __init__(self, function: TaskFunction) -> None:
        """Ask this function."""
        self._function = function
        self.tasks: dict[int, Any] = {}

    def advance(self, result: Mapping[str, Any], runners: RunnerGroup, blueprint: Made) -> Made:
        """Set the tasks that follow from a result.

        Samples that runners were asked for before are of the tasks of before, for any number of runners.

        Args:
            result: The result of an iteration. Its `config` is left out: the function may run in other processes.
            runners: The runners.
            blueprint: The blueprint that the runners are made by.

        Returns:
            What they are made by from now on.

        Raises:
            EnvError: If an environment has no tasks.
            CallbackError: If the function raises.
        """
        told = {name: value for name, value in result.items() if name != "config"}
        found = runners.foreach(_ask, _Ask(self._function, told), blueprint.envs.config)
        asked = {lane: pair for lanes in found for lane, pair in lanes.items()}
        if all(is_same(before, after) for before, after in asked.values()):
            return blueprint
        self.tasks = {**self.tasks, **{lane: after for lane, (_, after) in asked.items()}}
        made = self.in_envs(blueprint)
        runners.change(made, have_tasks)
        return made

    def check(self, runners: RunnerGroup) -> None:
        """Raise EnvError if environments have no tasks."""
        runners.foreach(_check)

    def in_envs(self, blueprint: Made) -> Made:
        """Return a blueprint whose environments begin with the tasks of now."""
        return replace(blueprint, envs=replace(blueprint.envs, tasks=dict(self.tasks)))

    def state(self) -> dict[str, Any]:
        """Return the tasks as checkpoints keep them: as text, and as pickles what has no other form."""
        writer = Writer()
        text = json.dumps(writer({str(lane): task for lane, task in self.tasks.items()}))
        return {"text": text, "pickles": {str(number): found for number, found in enumerate(writer.pickles)}}

    def set_state(self, state: Mapping[str, Any], runners: RunnerGroup, blueprint: Made) -> Made:
        """Go on with what `state` returned; return what runners are made by from now on.

        Raises:
            CheckpointError: If a task was pickled, and the pickles were left out.
        """
        pickles = state.get("pickles", {})

        def load(number: int) -> Any:
            if str(number) not in pickles:
                raise CheckpointError(
                    "a task of env_task_fn is an object that only a pickle can keep: pass trust=True to read it, or "
                    "let tasks be numbers, texts, lists or dicts of these"
                )
            return cloudpickle.loads(pickles[str(number)])

        self.tasks = {int(lane): task for lane, task in Reader(load)(json.loads(state["text"])).items()}
        made = self.in_envs(blueprint)
        runners.change(made, have_tasks)
        return made


class _Ask:
    """Returns the task of an environment, and which it is to have."""

    def __init__(self, function: TaskFunction, result: Mapping[str, Any]) -> None:
        self._function, self._result = function, result

    def __call__(self, env: Any, context: EnvContext) -> tuple[Any, Any]:
        found = settable(env)
        try:
            return found.get_task(), self._function(self._result, found, context)
        except Exception as error:
            raise CallbackError(f"env_task_fn raised {type(error).__name__}: {error}") from error


def _ask(runner: EnvRunner, ask: _Ask, config: Mapping[str, Any]) -> dict[int, tuple[Any, Any]]:
    sampler = runner.sampler
    found = sampler.envs.foreach(WithContext(ask, EnvContext(config, worker_index=runner.index)))
    lanes = sampler.lanes.tolist()
    if len(found) != len(lanes):
        raise EnvError(
            f"env_task_fn sets the task of each environment, and here {len(found)} object steps all {len(lanes)} of a "
            'runner: let the environment be one at a time, by gym_env_vectorize_mode="loop"'
        )
    return dict(zip(lanes, found, strict=True))


def have_tasks(runner: EnvRunner, blueprint: Any) -> None:
    """Let the environments of a runner have the tasks that a blueprint says."""
    set_tasks(runner.sampler.envs, runner.sampler.lanes.tolist(), blueprint.envs.tasks)


def _check(runner: EnvRunner) -> None:
    runner.sampler.envs.foreach(_has_tasks)


def _has_tasks(env: Any) -> None:
    settable(env)
