"""The contract of what reads recorded experience, and of what writes it. Users derive their own from both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError


class InputReader(ABC):
    """Returns batches of recorded experience, one after another, without end."""

    @abstractmethod
    def next(self) -> Batch | MultiAgentBatch:
        """Return the next batch: rows of steps, those of an episode one after another."""

    def tf_input_ops(self, queue_size: int = 1) -> dict[str, Any]:
        """Raise ConfigError: there are no queues of TensorFlow. A loss reads batches by `next()`."""
        raise ConfigError(
            f"{type(self).__name__}.tf_input_ops() would be a queue of TensorFlow's graphs, which are not here: call "
            "next() where the loss is computed, and take the columns of the batch that it returns"
        )


class OutputWriter(ABC):
    """Takes batches of experience, and keeps them."""

    @abstractmethod
    def write(self, sample_batch: Batch | MultiAgentBatch) -> None:
        """Keep a batch."""
