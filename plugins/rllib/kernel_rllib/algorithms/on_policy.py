"""Parts of on-policy algorithms, which learn from each step once, soon after it: batches, modules, means of losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import Sequences, sequences
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.actor_critic import ActorCritic
from kernel_rllib.modules.catalog import actor_critic_options
from kernel_rllib.modules.module import Module
from kernel_rllib.nn.ops import Ops
from kernel_rllib.training.models import refuse_dense_layers_for_images


def experience(module: Module, fragments: Sequence[Fragment], names: Sequence[str], length: int) -> Batch | Sequences:
    """Return what is learned from: rows of steps, or sequences where the module remembers.

    Args:
        module: The module that learns.
        fragments: The sampled steps.
        names: The columns that the loss reads.
        length: The length of a sequence, in steps.
    """
    if module.state():
        return sequences(fragments, length).only(names)
    found = concatenated([fragment.batch().only(names) for fragment in fragments])
    assert isinstance(found, Batch)
    return found


def whole(found: Batch | Sequences) -> Batch:
    """Return all that is learned from as one batch."""
    return found.whole() if isinstance(found, Sequences) else found


def pieces(found: Batch | Sequences, size: int) -> Iterator[Batch]:
    """Yield all that is learned from, in order, in batches of `size` steps, or of the sequences that fit into it."""
    if isinstance(found, Batch):
        yield from found.timeslices(size)
        return
    length, count = found.shape
    each = max(size // length, 1)
    for start in range(0, count, each):
        yield found.take(np.arange(start, min(start + each, count)))


def mean_over(nn: Ops, batch: Batch) -> Callable[[Any], Any]:
    """Return the function that takes the mean of numbers [N] over the rows of a batch that count."""
    mask = batch.get(columns.LOSS_MASK)
    if mask is None:
        return nn.mean
    shares = nn.constant(mask / mask.sum())
    return lambda numbers: nn.sum(numbers * shares)


def actor_critic(config: Any, observation: tuple[int, ...], distribution: Distribution) -> ActorCritic:
    """Return the policy and the value function that the options `model` of a config describe.

    Raises:
        ConfigError: If they contradict each other, or don't fit what is observed.
    """
    if config.model.use_lstm and config.model.use_attention:
        raise ConfigError(
            f"{config.title}: model use_lstm=True and use_attention=True both give the policy a memory; set one of "
            "them to False"
        )
    options = actor_critic_options(config.model)
    refuse_dense_layers_for_images(config, observation)
    return ActorCritic(observation, distribution.parameter_size, free_inputs=distribution.free_size, options=options)


def refuse_several_agents(title: str, has_several: bool) -> None:
    """Raise ConfigError for an environment of several agents, where runners themselves learn."""
    if has_several:
        raise ConfigError(
            f"{title}: runners learn from what one agent does, and the environment has several; take PPO or A2C"
        )


def critic_problems(config: Any) -> Iterator[str]:
    """Yield what contradicts itself in `use_gae`, `use_critic` and `batch_mode`."""
    if config.use_gae and not config.use_critic:
        yield "use_gae=True needs the value function that use_critic=False leaves out; set one of them otherwise"
