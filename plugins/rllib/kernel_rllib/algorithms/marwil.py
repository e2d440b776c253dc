"""MARWIL (Wang et al. 2018, Exponentially weighted imitation learning for batched historical data): imitate what paid.

The policy is made likelier to do what was recorded, the more so the better it turned out than was expected there. With
`beta` 0 all that was recorded counts alike: that is behaviour cloning, see `bc.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_rllib.algorithms.advantages import estimate_advantages
from kernel_rllib.algorithms.off_policy import Pace
from kernel_rllib.algorithms.on_policy import actor_critic, mean_over
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.replay import UniformReplay
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import HEADS, IMAGES, ONE_PASS, OWN_DISTRIBUTIONS, OWN_MODELS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

SQUARED = "adv_squared_mean"
"""The metric that is the mean of squared advantages in a minibatch."""


class MARWILConfig(AlgorithmConfig):
    """The settings of MARWIL. `offline_data(input_=...)` says what is imitated."""

    algorithm = "MARWIL"

    defaults = values(
        lr=1e-4,
        train_batch_size=2000,
        num_env_runners=0,
        batch_mode=Default("truncate_episodes", older={"1.x": "complete_episodes"}),
        postprocess_inputs=True,
    )
    in_all_dicts = ("postprocess_inputs", "batch_mode", "train_batch_size", "num_env_runners", "lr")

    beta = Field(1.0, "How much more likely what turned out well becomes; 0: all alike.", range=(0, None))
    vf_coeff = Field(1.0, "The weight of the value function's loss.", range=(0, None))
    bc_logstd_coeff = Field(
        0.0, "How much the policy's standard deviation is widened, of Gaussian actions.", range=(0, None), since="1.x"
    )
    moving_average_sqd_adv_norm_start = Field(
        100.0, "The first mean of squared advantages, by whose root they are divided.", above=0, since="1.x"
    )
    moving_average_sqd_adv_norm_update_rate = Field(1e-8, "How quickly that mean follows.", range=(0, 1), since="1.x")
    use_gae = Field(
        True,
        "Whether returns are completed by values where episodes break off.",
        since="1.x",
        inert="they always are, as what is beyond is worth something",
    )
    replay_buffer_size = Field(
        100_000, "How many of the last steps that were read are learned from.", range=(1, None), unit="env steps"
    )
    num_steps_sampled_before_learning_starts = Field(
        0, "Steps that are read before anything is learned.", range=(0, None), unit="env steps"
    )
    store_buffer_in_checkpoints = Field(
        False, "Whether checkpoints have these steps, so that runs go on with the same bits.", since="1.x"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        beta: float = NOT_PROVIDED,
        vf_coeff: float = NOT_PROVIDED,
        bc_logstd_coeff: float = NOT_PROVIDED,
        moving_average_sqd_adv_norm_start: float = NOT_PROVIDED,
        moving_average_sqd_adv_norm_update_rate: float = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        replay_buffer_size: int = NOT_PROVIDED,
        num_steps_sampled_before_learning_starts: int = NOT_PROVIDED,
        store_buffer_in_checkpoints: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how MARWIL learns; return this config."""
        return self


class MARWIL(Algorithm):
    """Keeps what is read with its returns, and learns from minibatches of it, as many steps as were read."""

    config: MARWILConfig
    config_class = MARWILConfig
    acts_on = HEADS | IMAGES | OWN_MODELS | OWN_DISTRIBUTIONS
    without: ClassVar[Mapping[str, str]] = ONE_PASS

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss. Raises ConfigError where a deviation is to be widened that actions don't have."""
        config = self.config
        if config.bc_logstd_coeff and not isinstance(self.distribution, Gaussian):
            raise ConfigError(
                f"{config.title}: bc_logstd_coeff={config.bc_logstd_coeff} widens Gaussian actions, and these are of "
                f"{type(self.distribution).__name__}; leave it at 0"
            )
        return {"marwil": self.objective(marwil_loss(config, self.distribution, lambda: self.squared_norm**0.5))}

    def setup_learning(self) -> None:
        """Make the buffer."""
        self.replay = UniformReplay(self.config.replay_buffer_size)
        self.draws = self.stream("replay")
        self.pace = Pace(1.0)
        self.squared_norm = self.config.moving_average_sqd_adv_norm_start
        """The moving mean of squared advantages (c^2)."""

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was read, and make an update for each `train_batch_size` steps of it."""
        for fragment in fragments:
            self.replay.add(self.experience(fragment))
        config = self.config
        if self.env_steps_sampled < config.num_steps_sampled_before_learning_starts:
            return {}
        size = config.total_train_batch_size
        due = self.pace.updates(self.progress.env_steps_new, size)
        return mean_metrics([self.learn_once(size) for _ in range(due)]) if due else {}

    def learn_once(self, size: int) -> Metrics:
        """Make one update by `size` of the kept steps."""
        metrics = self.update(self.replay.sample(size, self.draws))
        if SQUARED in metrics:
            rate = self.config.moving_average_sqd_adv_norm_update_rate
            self.squared_norm += rate * (float(metrics[SQUARED]) - self.squared_norm)
            metrics["moving_average_sqd_adv_norm"] = self.squared_norm
        return metrics

    def experience(self, fragment: Fragment) -> Batch:
        """Return steps with their returns (R): the rewards to the end of the episode, or to where it breaks off."""
        names = (columns.OBS, columns.ACTIONS)
        if self.config.beta:
            estimate_advantages(self.learner, fragment, gamma=self.config.gamma, use_gae=False)
            names += (columns.VALUE_TARGETS,)  # type: ignore[assignment]
        return fragment.batch().only(names)

    def own_state(self) -> dict[str, Any]:
        """Return where draws are and what is owed; the kept steps too, where settings say so."""
        state: dict[str, Any] = {
            "draws": self.draws.bit_generator.state,
            "owed": self.pace.owed,
            "squared_norm": self.squared_norm,
        }
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = dict(self.replay.state())
        return state

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.draws.bit_generator.state = state["draws"]
        self.pace.owed, self.squared_norm = float(state["owed"]), float(state["squared_norm"])
        if "replay" in state:
            self.replay.set_state(state["replay"])


def marwil_loss(config: Any, distribution: Distribution, norm: Callable[[], float]) -> Loss:
    """Return the loss of algorithm 1 of the paper, with values that are learned beside it.

    L = mean( -exp(beta (R - V(s)) / c) log pi(a|s) + v (R - V(s))^2 / 2 ), in which the weights of log-probabilities
    have no gradient. With beta 0 it is -mean(log pi(a|s)).

    Args:
        config: Gives beta, v (`vf_coeff`) and `bc_logstd_coeff`.
        distribution: The policy's.
        norm: Gives c, the root of the mean of squared advantages.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        mean = mean_over(nn, batch)
        outputs = module.train(nn, parameters, batch) if config.beta else module.explore(nn, parameters, batch)
        inputs = outputs[columns.ACTION_DIST_INPUTS]
        log_probs = distribution.log_prob(nn, inputs, nn.constant(batch[columns.ACTIONS]))
        metrics: dict[str, Any] = {}
        if config.bc_logstd_coeff:
            log_std = nn.split(inputs, 2)[1]
            log_probs = log_probs + config.bc_logstd_coeff * nn.sum(log_std, axis=-1)
        if config.beta:
            advantages = nn.constant(batch[columns.VALUE_TARGETS]) - outputs[columns.VF_PREDS]
            metrics[SQUARED] = mean(nn.square(advantages))
            metrics["vf_loss"] = 0.5 * metrics[SQUARED]
            log_probs = log_probs * nn.exp(nn.stop_gradient(advantages) * (config.beta / norm()))
        metrics["policy_loss"] = -mean(log_probs)
        total = metrics["policy_loss"]
        if config.beta:
            total = total + config.vf_coeff * metrics["vf_loss"]
        return total, {**metrics, "total_loss": total}

    return loss
