"""Learn from what tasks sampled: adapt parameters to each task, and find the gradient through the adaptation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernel_rllib.algorithms.advantages import estimate_advantages, standardise_advantages
from kernel_rllib.algorithms.maml_losses import (
    WITHIN,
    inner_loss,
    outer_loss,
    policy_distance,
    wide,
    within_bound,
)
from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.adaptation import Adaptation, LossAt, TaskLosses
from kernel_rllib.learners.learner import Learner, Loss, Metrics
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.backend import Loss as NetworkLoss
from kernel_rllib.nn.ops import Ops
from kernel_rllib.training.results import mean_metrics

READ = (
    columns.OBS,
    columns.ACTIONS,
    columns.ACTION_LOGP,
    columns.ACTION_DIST_INPUTS,
    columns.ADVANTAGES,
    columns.VALUE_TARGETS,
)
"""The columns of a batch that the losses read."""


class TaskLearning:
    """Adapts a policy to tasks, and differentiates the losses of the adapted policies. It changes no parameters."""

    def __init__(self, learner: Learner, distribution: Distribution, config: Any) -> None:
        """Adapt what a learner learns.

        Args:
            learner: The learner of the policy, with its module and its parameters.
            distribution: The distribution of the policy's actions.
            config: The settings: those of `MAMLConfig` about adaptation, advantages and losses.
        """
        self._learner, self._distribution, self._config = learner, distribution, config
        self.adaptation = Adaptation(
            learner.backend, learner.module.table, config.inner_lr, second_order=config.second_order
        )
        self.kl_coefficients: list[float] = [config.kl_coeff] * config.inner_adaptation_steps
        """The weight of how far the policy moves before each step of adaptation."""
        self._inner, self._outer = inner_loss(config, distribution), outer_loss(config, distribution)

    def experience(self, vector: Array, fragment: Fragment) -> Batch:
        """Return what a task sampled, as a batch in float64 with standardised advantages.

        Args:
            vector: The parameters that sampled it [size].
            fragment: The steps of the task.
        """
        config, at = self._config, _At(self._learner, vector)
        estimate_advantages(at, fragment, gamma=config.gamma, lambda_=config.lambda_, use_gae=config.use_gae)
        standardise_advantages([fragment])
        return wide(fragment.batch().only(READ))

    def adapted(self, vector: Array, batch: Batch) -> Array:
        """Return the parameters after one step of adaptation from others [size], which sampled the batch."""
        wide_vector = vector.astype(np.float64)
        found: Array = self.adaptation.step(self._inner_at(batch)(wide_vector), wide_vector).astype(np.float32)
        return found

    def losses_of(self, before: Sequence[Batch], last: Batch) -> TaskLosses:
        """Return the losses of a task.

        Args:
            before: The batches that it sampled before each step of adaptation.
            last: The batch that it sampled after the last step.
        """
        weights = [coefficient / len(before) for coefficient in self.kl_coefficients]
        distances = [policy_distance(self._distribution, weight) for weight in weights]
        return TaskLosses(
            inner=[self._inner_at(batch) for batch in before],
            outer=self._on(self._outer, last),
            beside=[self._on(*each) for each in zip(distances, before, strict=True)],
        )

    def gradient(self, batches: Sequence[Sequence[Batch]]) -> tuple[Array, Metrics]:
        """Return the gradient [size] of the mean of all tasks' losses, and what is reported of it.

        The weights of distances are adapted, for the next call.

        Args:
            batches: The batches that were sampled, [rounds][tasks].
        """
        at = self._learner.weights.astype(np.float64)
        found = [
            self.adaptation.outer_gradient(self.losses_of(before, last), at)
            for *before, last in zip(*batches, strict=True)
        ]
        gradient: Array = np.mean([gradient for _, _, gradient in found], axis=0).astype(np.float32)
        distances = np.mean([[report["kl"] for report in reports] for _, reports, _ in found], axis=0).tolist()
        target = self._config.kl_target
        pairs = zip(self.kl_coefficients, distances, strict=True)
        self.kl_coefficients = [adapted_weight(coefficient, kl, target) for coefficient, kl in pairs]
        return gradient, {
            **mean_metrics([reported for reported, _, _ in found]),
            "inner_kl": float(np.mean(distances)),
            "cur_kl_coeff": float(np.mean(self.kl_coefficients)),
        }

    def _inner_at(self, batch: Batch) -> LossAt:
        """Return the loss of a step of adaptation, given the parameters that it starts from."""
        module, learner = self._learner.module, self._learner

        def loss_at(vector: Array) -> NetworkLoss:
            foreseen = _At(learner, vector).evaluate(lambda nn, p: module.train(nn, p, batch)[columns.VF_PREDS])
            within = within_bound(np.asarray(foreseen), batch[columns.VALUE_TARGETS], self._config.vf_clip_param)
            return self._on(self._inner, Batch({**batch, WITHIN: within}))

        return loss_at

    def _on(self, loss: Loss, batch: Batch) -> NetworkLoss:
        """Return a loss of the module on a batch."""
        module = self._learner.module
        return lambda nn, parameters: loss(nn, module, parameters, batch)


class _At:
    """Computes with a learner's module, at parameters that need not be the learner's."""

    def __init__(self, learner: Learner, vector: Array) -> None:
        self.module, self._learner = learner.module, learner
        self._vector = learner.backend.vector(vector)

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)`."""
        return self._learner.evaluate(function, self._vector)


def adapted_weight(coefficient: float, kl: float, target: float) -> float:
    """Return the weight of a distance, doubled or halved where it is far from its target."""
    if kl > 1.5 * target:
        return coefficient * 2.0
    return coefficient * 0.5 if kl < target / 1.5 else coefficient
