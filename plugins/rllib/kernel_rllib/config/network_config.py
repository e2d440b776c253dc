"""The networks of an algorithm that has several, each with a few options of its own: `config.q_model_config`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_rllib.config.generations import Generation, values
from kernel_rllib.config.model_config import ModelConfig
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.sentinels import DEPRECATED_VALUE

DENSE = ("fcnet_hiddens", "fcnet_activation", "head_fcnet_hiddens", "head_fcnet_activation")
"""The options of a network of dense layers."""


class NetworkConfig(ModelConfig):
    """Options of one network. As a dict it has layers and activations, and what else was set."""

    rows = (
        Name("fcnet_activation", also=("hidden_activation",)),
        Name("fcnet_hiddens", also=("hidden_layer_sizes",)),
    )
    defaults = values(fcnet_activation="relu")
    more_in_0_8_5 = values(hidden_activation=DEPRECATED_VALUE, hidden_layer_sizes=DEPRECATED_VALUE)

    def to_dict(self, generation: Generation = "current") -> dict[str, Any]:
        """Return the options by the names of a generation."""
        chosen = {"fcnet_hiddens", "fcnet_activation", *self.set_values()}
        names = type(self).names
        keys = {names.key_of(name, generation) if name in names.names else name for name in chosen}
        return {key: value for key, value in super().to_dict(generation).items() if key in keys}

    def problems_of_dense(self, name: str) -> Iterator[str]:
        """Yield which options a network of dense layers does not have. `name` is the setting that this is."""
        for option, value in self.set_values().items():
            if option not in DENSE and not (option in type(self).fields and self.is_default(option)):
                yield (
                    f"{name} sets {option}={value!r}, and networks of dense layers have {', '.join(DENSE)}; leave it "
                    "out"
                )
