"""The half of an algorithm that is about recorded experience: runners that read or write it, estimates by it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.offline.recording import Recording
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.training.estimating import Estimates, asks_for_estimates
from kernel_rllib.training.recorded_data import sampler_maker, with_recording


class RecordedRuns:
    """Makes the runners of an algorithm, and asks estimators of what they read."""

    config: AlgorithmConfig
    blueprint: Blueprint | MultiAgentBlueprint
    learns_from: ClassVar[tuple[str, ...]]
    logdir: Any
    module_id: str
    has_several_agents: bool
    get_policy: Callable[..., Any]
    estimates: Estimates | None = None
    """Estimates the policy's value from recorded episodes, where the settings ask for it."""
    recording: Recording | None = None
    """The work by which runners write their samples, where the settings ask for it."""
    learns_in_runners = False
    """Whether runners learn from their own samples, so that no other process sees these."""

    def make_runners(self, settings: GroupSettings) -> RunnerGroup:
        """Return the runners: they step environments or read, and write what they sample, as the settings say.

        Raises:
            ConfigError: If estimates are asked for that can't be made.
        """
        blueprint, config, log_dir = self.blueprint, self.config, os.path.abspath(self.logdir)
        settings = with_recording(settings, blueprint, config, log_dir)
        self.recording = settings.work if isinstance(settings.work, Recording) else None
        needed = [*self.learns_from]
        if asks_for_estimates(config):
            if self.has_several_agents or self.learns_in_runners:
                raise ConfigError(
                    f"{config.title}: off_policy_estimation_methods are for one policy, and for algorithms whose "
                    "runners don't learn themselves: leave them out, and evaluate in the environment"
                )
            self.estimates = Estimates(config, self.get_policy)
            if self.estimates.needs_action_prob:
                needed = list(dict.fromkeys([*needed, columns.ACTION_LOGP]))
        return RunnerGroup(sampler_maker(blueprint, config, needed, log_dir), settings)

    def take_estimates(self, fragments: Mapping[str, Sequence[Fragment]]) -> None:
        """Ask estimators of what was read, where there are any."""
        if self.estimates is not None:
            self.estimates.take(fragments.get(self.module_id, []))

    def estimates_made(self) -> dict[str, Any]:
        """Return what they said since this was last asked, as a part of results."""
        return {} if self.estimates is None else {"off_policy_estimator": self.estimates.results()}

    def end_recording(self) -> None:
        """End the file that is written here."""
        if self.recording is not None:
            self.recording.close()
