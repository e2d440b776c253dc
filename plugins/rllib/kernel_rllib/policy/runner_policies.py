"""The policies of a runner, under the names by which users know policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn import philox
from kernel_rllib.nn.ops import Ops
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import HeldParameters, RunnerParameters
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.policy.worker_settings import PolicySettings, WorkerSettings
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.runners.scripted_lanes import ScriptedLanes


class LaneParameters:
    """The parameters that a runner acts with for the agents of one policy."""

    def __init__(self, lanes: AgentLanes) -> None:
        """Take those of these lanes."""
        self._lanes = lanes

    @property
    def module(self) -> Module:
        """The module that acts."""
        return self._lanes.module

    @property
    def vector(self) -> Array:
        """All parameters, as one vector [size]."""
        return self._lanes.vector

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)` in numpy."""
        return self._lanes.evaluate(function)

    def replace(self, vector: Array) -> None:
        """Let the runner act with these, until the learner's come again."""
        self._lanes.vector[...] = vector


def policies_of_runner(runner: EnvRunner, settings: WorkerSettings) -> dict[str, Any]:
    """Return the policies of a runner by their ids: views of modules, and objects of the user's own classes."""
    sampler = runner.sampler
    if isinstance(sampler, MultiAgentSampler):
        found: dict[str, Any] = {}
        for policy_id, lanes in sampler.modules.items():
            if isinstance(lanes, ScriptedLanes):
                found[policy_id] = lanes.object
            else:
                found[policy_id] = _view(policy_id, lanes.policy, LaneParameters(lanes), runner, settings)
        return found
    alone, blueprint = cast(Sampler, sampler), settings.blueprint
    if settings.policy_of is not None:
        return {DEFAULT_POLICY_ID: settings.policy_of(alone)}
    assert isinstance(blueprint, PolicyBlueprint)
    acting = replace(blueprint, exploration=alone.exploration)  # it knows the module that the runner has
    return {DEFAULT_POLICY_ID: _view(DEFAULT_POLICY_ID, acting, RunnerParameters(alone), runner, settings)}


def _view(
    policy_id: str, blueprint: PolicyBlueprint, held: HeldParameters, runner: EnvRunner, settings: WorkerSettings
) -> PolicyView:
    own = () if policy_id == DEFAULT_POLICY_ID else (policy_id,)
    stream = philox.stream(settings.blueprint.seed, "worker", *own, runner.index)
    known = settings.policies.get(policy_id, PolicySettings(None, settings.config))
    return PolicyView(
        held,
        Inference.of_blueprint(blueprint, held, stream),
        observation_space=blueprint.observation_space,
        action_space=blueprint.action_space,
        distribution=known.distribution and known.distribution.with_module(held.module),
        stream=stream,
        config=known.config,
    )
