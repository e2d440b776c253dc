"""Make the sampler of a runner, in any process: environments, connectors, and the policy that acts in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from gymnasium import Space

from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.callbacks.calling import CallbackSettings
from kernel_rllib.callbacks.observer import RunnerCallbacks
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.ends_as_cuts import EndsAsCuts
from kernel_rllib.envs.external import ExternalLanes
from kernel_rllib.envs.filming import filmed
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.registry import EnvMaker
from kernel_rllib.envs.task import set_tasks
from kernel_rllib.errors import EnvError
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.sampler import Sampler


@dataclass(frozen=True)
class EnvSettings:
    """The settings by which environments are made and stepped.

    Attributes:
        maker: Makes one of its context.
        config: The user's settings for each.
        kind: The kind of vector that steps the lanes: see `envs.making.make_vector`.
        restart_failed: Whether one that raises is made anew alone.
        max_episode_steps: The step at which episodes are truncated, or None.
        batch_wait_ms: The time to wait for environments in actors once one is ready.
        ends_are_cuts: Whether ends of episodes count as cuts, after which there would be more.
        tasks: The tasks of environments, by the numbers of their lanes, where they were set.
        videos: The directory for videos of the first lane of all; None: none are made.
    """

    maker: EnvMaker
    config: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "auto"
    restart_failed: bool = False
    max_episode_steps: int | None = None
    batch_wait_ms: float = 0.0
    ends_are_cuts: bool = False
    tasks: Mapping[int, Any] = field(default_factory=dict)
    videos: str | None = None


@dataclass(frozen=True, kw_only=True)
class Blueprint(PolicyBlueprint):
    """Makes the sampler of a runner. It is sent to where that runs.

    Attributes:
        envs: The settings by which environments are made and stepped.
        complete_episodes: Whether samples are to be of whole episodes.
        seed: The seed of the run.
        callbacks: The user's callbacks, which runners call; None for none.
    """

    envs: EnvSettings
    complete_episodes: bool = False
    seed: int = 0
    callbacks: CallbackSettings | None = None

    def __call__(self, place: RunnerPlace) -> Sampler | ExternalSampler:
        """Return a sampler for a place, with environments of its own."""
        envs = make_envs(self.envs, place, self.observation_space, self.action_space)
        if isinstance(envs, ExternalLanes):
            return self.make_external(envs, place)
        return self.sampler(
            self._of_one_agent(envs),
            place.lanes,
            module=self.module,
            exploration=self.exploration_of(place),
            env_to_module=self.make_env_to_module(),
            module_to_env=self.make_module_to_env(),
            seed=self.seed,
            all_lanes=place.all_lanes,
            incarnation=place.incarnation,
            steps_before=place.steps_before,
            complete_episodes=self.complete_episodes,
            observer=self.make_observer(place),
            clip_rewards=self.clip_rewards,
            told=self.told,
        )

    def sampler(self, envs: VectorEnv, lanes: Sequence[int], **parts: Any) -> Sampler:
        """Return a sampler of these environments, with the parts that `Sampler` takes."""
        return Sampler(envs, lanes, **parts)

    def make_external(self, envs: ExternalLanes, place: RunnerPlace) -> ExternalSampler:
        """Return the sampler of an external environment's episodes, in the runner of a place."""
        context, callbacks = context_of(self.envs, place), self.callbacks
        return ExternalSampler(
            envs,
            place,
            make_modules=lambda: {DEFAULT_POLICY_ID: AgentLanes(DEFAULT_POLICY_ID, self, place, self.seed)},
            policy_of=lambda *_: DEFAULT_POLICY_ID,
            worker=context,
            make_observer=lambda copies: None if callbacks is None else AgentCallbacks(callbacks, copies, context),
            complete_episodes=self.complete_episodes,
            only=DEFAULT_POLICY_ID,
        )

    def make_observer(self, place: RunnerPlace) -> RunnerCallbacks | None:
        """Return what calls the callbacks of the runner of a place; None where there are none."""
        if self.callbacks is None:
            return None
        context = context_of(self.envs, place)
        return RunnerCallbacks(self.callbacks, place.lanes, self.observation_space, self.action_space, context)

    def make_envs(self, place: RunnerPlace) -> VectorEnv:
        """Return the lanes of a place.

        Raises:
            EnvError: If an environment can't be made, has several agents, or is external.
        """
        return self._of_one_agent(make_envs(self.envs, place, self.observation_space, self.action_space))

    def _of_one_agent(self, vector: Any) -> VectorEnv:
        if isinstance(vector, ExternalLanes):
            raise EnvError(
                f"{vector.name} is an external environment, whose program makes the steps, and here environments are "
                "stepped: derive it from gymnasium.Env, or train with an algorithm that learns from samples"
            )
        if hasattr(vector, "num_lanes"):
            return cast(VectorEnv, vector)
        vector.close()
        raise EnvError(
            f"{self.envs.maker.name} has several agents, but its spaces were given as those of one: leave out "
            "observation_space and action_space of environment(), and give them in the config's policies"
        )


def context_of(envs: EnvSettings, place: RunnerPlace) -> EnvContext:
    """Return what environments of a place are made with."""
    return EnvContext(
        envs.config,
        worker_index=place.index,
        num_workers=place.runners,
        recreated_worker=place.incarnation > 0,
    )


def make_envs(
    envs: EnvSettings,
    place: RunnerPlace,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
) -> Any:
    """Return the lanes of a place, or the copies of an environment with several agents; see `envs.making`."""
    drawn = list(place.lanes).index(0) if envs.videos is not None and 0 in place.lanes else None
    vector: Any = make_vector(
        envs.maker,
        len(place.lanes),
        context_of(envs, place),
        kind=envs.kind,
        restart_failed=envs.restart_failed,
        max_episode_steps=envs.max_episode_steps,
        observation_space=observation_space,
        action_space=action_space,
        batch_wait_ms=envs.batch_wait_ms,
        drawn=drawn,
    )
    set_tasks(vector, place.lanes, envs.tasks)
    if drawn is not None and envs.videos is not None:
        vector = filmed(vector, drawn, envs.videos, place.index)
    return EndsAsCuts(vector) if envs.ends_are_cuts and hasattr(vector, "num_lanes") else vector
