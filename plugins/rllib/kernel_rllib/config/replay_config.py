"""The buffer that off-policy algorithms learn from: its size, and how it is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.name_table import Conversion, Name
from kernel_rllib.config.settings_dict import DictSettings

UNIFORM = "EpisodeReplayBuffer"
PRIORITIZED = "PrioritizedEpisodeReplayBuffer"

_OF_OLD = {
    "ReplayBuffer": UNIFORM,
    "MultiAgentReplayBuffer": UNIFORM,
    "MultiAgentEpisodeReplayBuffer": UNIFORM,
    "PrioritizedReplayBuffer": PRIORITIZED,
    "MultiAgentPrioritizedReplayBuffer": PRIORITIZED,
    "MultiAgentPrioritizedEpisodeReplayBuffer": PRIORITIZED,
}


def _type(value: Any) -> Any:
    """Return today's name for a buffer that is written by an older one, or by the path of RLlib's class."""
    name = value.rpartition(".")[2] if isinstance(value, str) else value
    if isinstance(value, str) and name in (*_OF_OLD, *_OF_OLD.values()):
        return _OF_OLD.get(name, name)
    return value


def read_prioritized(given: Mapping[str, Any], everything: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `prioritized_replay: True` says today."""
    flag = given.get("prioritized_replay")
    return {} if flag is None else {"type": PRIORITIZED if flag else UNIFORM}


class ReplayBufferConfig(DictSettings):
    """The buffer that is learned from. Options that aren't known are arguments of a buffer of the user's own."""

    type = Field[Any](UNIFORM, "Which buffer: a name, a dotted path or a class.", convert=_type)
    capacity = Field(10_000, "How many steps it holds; then the oldest go.", range=(1, None), unit="env steps")
    alpha = Field(0.6, "How much priorities count: 0 not at all, 1 in full.", range=(0, None))
    beta = Field(0.4, "How much weights correct for priorities at first.", range=(0, None))
    final_beta = Field[float | None](None, "How much they do at last; None: as at first.", range=(0, None))
    beta_annealing_timesteps = Field(20_000, "Over how many steps that changes.", range=(0, None), unit="env steps")
    eps = Field(1e-6, "What is added to errors, so that no priority is 0.", range=(0, None))
    worker_side_prioritization = Field(False, "Whether runners compute the first priorities.")
    replay_sequence_length = Field[int | None](
        None, "How many steps are sampled together; None: one, or as recurrent models need.", unit="env steps"
    )
    replay_mode = Field("independent", "Whether agents are sampled each alone, or those of a step together (lockstep).")

    rows = (
        Name("alpha", "prioritized_replay_alpha"),
        Name("beta", "prioritized_replay_beta"),
        Name("eps", "prioritized_replay_eps"),
        Conversion(("prioritized_replay",), read_prioritized, wins=True),
    )

    @property
    def is_prioritized(self) -> bool:
        """Whether steps with larger errors are sampled more often, by a buffer of this library."""
        return self.type is not None and self.type == PRIORITIZED
