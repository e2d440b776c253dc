"""The config of the runners that evaluate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.derived import Derived
from kernel_rllib.config.settings import Origin, Settings

if TYPE_CHECKING:
    from typing_extensions import Self

_AUTO_STEPS = 100
"""The steps of one request to a runner that evaluates during training: few, so that it ends soon after training."""


class EvaluationSetup(Derived):
    """Adds the config that evaluations run with."""

    def get_evaluation_config_object(self) -> Self | None:
        """Return the whole config of the runners that evaluate; None where this is one already.

        It is this config with what `evaluation_config` changes. Counting episodes, a fragment is an episode; counting
        steps, a runner's share of them.
        """
        if self.in_evaluation:
            return None
        changed = self.evaluation_config
        made: Self
        if isinstance(changed, type(self)):
            made = changed.copy(copy_frozen=False)
        else:
            made = self.copy(copy_frozen=False)
            played: dict[str, Any] = {"input_": "sampler", "output": None, "off_policy_estimation_methods": {}}
            made._change(played, Origin("evaluation"))
            given = changed.set_values() if isinstance(changed, Settings) else changed
            if isinstance(given, Mapping):
                made._change(given, Origin("evaluation_config"), keep_unknown=made._keeps_unknown)
        by_rule = Origin("evaluation")
        made._change({"in_evaluation": True, "evaluation_config": None}, by_rule)
        made._change({"num_env_runners": self.evaluation_num_env_runners, "num_envs": None}, by_rule)
        if self.evaluation_duration_unit == "episodes":
            made._change({"batch_mode": "complete_episodes", "rollout_fragment_length": 1}, by_rule)
        else:
            steps = _AUTO_STEPS
            if isinstance(self.evaluation_duration, int):
                steps = math.ceil(self.evaluation_duration / max(self.evaluation_num_env_runners, 1))
            made._change({"batch_mode": "truncate_episodes", "rollout_fragment_length": steps}, by_rule)
        return made
