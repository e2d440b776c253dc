"""Make the sampler of a runner whose environments have several agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.callbacks.calling import CallbackSettings
from kernel_rllib.envs.external import ExternalLanes
from kernel_rllib.errors import EnvError
from kernel_rllib.runners.blueprint import EnvSettings, context_of, make_envs
from kernel_rllib.runners.casts import Lanes, make_lanes
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint


@dataclass(frozen=True)
class MultiAgentBlueprint:
    """Makes the sampler of a runner. It is sent to where that runs.

    Attributes:
        envs: The settings by which environments are made and stepped.
        policies: The blueprints of the policies, by their ids. Parameters come in this order.
        policy_of: Returns the policy of an agent, given the agent, its episode, and the context of its environment.
        complete_episodes: Whether samples are to be of whole episodes.
        seed: The seed of the run.
        callbacks: The user's callbacks, which runners call; None for none.
    """

    envs: EnvSettings
    policies: Mapping[str, PolicyBlueprint | ScriptedBlueprint]
    policy_of: Callable[[Any, Any, Any], Any]
    complete_episodes: bool = False
    seed: int = 0
    callbacks: CallbackSettings | None = None

    def __call__(self, place: RunnerPlace) -> MultiAgentSampler | ExternalSampler:
        """Return a sampler for a place, with environments of its own.

        Raises:
            EnvError: If environments can't be made, or have one agent each.
        """
        envs = make_envs(self.envs, place)
        if not hasattr(envs, "observation_space_of"):
            envs.close()
            raise EnvError(
                f"{self.envs.maker.name} has one agent, but multi_agent(policies=...) names policies for several: "
                "leave it out, or derive the environment from MultiAgentEnv"
            )
        if isinstance(envs, ExternalLanes):
            return self.make_external(envs, place)
        made = MultiAgentSampler(
            envs,
            place.lanes,
            modules=self.make_modules(place),
            policy_of=self.policy_of,
            worker=context_of(self.envs, place),
            seed=self.seed,
            all_copies=place.all_lanes,
            incarnation=place.incarnation,
            steps_before=place.steps_before,
            complete_episodes=self.complete_episodes,
            observer=self.make_observer(place, place.lanes),
        )
        made.place = place
        return made

    def make_external(self, envs: ExternalLanes, place: RunnerPlace) -> ExternalSampler:
        """Return the sampler of an external environment's episodes, in the runner of a place."""
        return ExternalSampler(
            envs,
            place,
            make_modules=partial(self.make_modules, place),
            policy_of=self.policy_of,
            worker=context_of(self.envs, place),
            make_observer=partial(self.make_observer, place),
            complete_episodes=self.complete_episodes,
        )

    def make_modules(self, place: RunnerPlace) -> dict[str, Lanes]:
        """Return the lanes of each module in the runner of a place, by the ids of modules."""
        return {policy_id: make_lanes(policy_id, made, place, self.seed) for policy_id, made in self.policies.items()}

    def make_observer(self, place: RunnerPlace, copies: Sequence[int]) -> AgentCallbacks | None:
        """Return what calls the callbacks of the runner of a place; None where there are none.

        Args:
            place: The place.
            copies: The numbers of the copies of its environments.
        """
        if self.callbacks is None:
            return None
        return AgentCallbacks(self.callbacks, copies, context_of(self.envs, place))

    def change(self, sampler: MultiAgentSampler | ExternalSampler) -> None:
        """Let a sampler that an earlier blueprint made have the policies and the mapping of this one."""
        assert sampler.place is not None
        there = sampler.modules
        modules = {
            policy_id: there.get(policy_id) or make_lanes(policy_id, policy, sampler.place, self.seed)
            for policy_id, policy in self.policies.items()
        }
        sampler.change_policies(modules, self.policy_of)


def change_policies(runner: EnvRunner, blueprint: MultiAgentBlueprint) -> None:
    """Let a runner have the policies and the mapping of a blueprint."""
    blueprint.change(cast(MultiAgentSampler | ExternalSampler, runner.sampler))
