"""Several policies: `config.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda agent, episode: ...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.policy_spec import (
    DEFAULT_POLICY_ID,
    PolicySpec,
    as_mapping,
    as_specs,
    as_tuples,
    default_policy_mapping,
    policies_problem,
)
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

CountStepsBy = Literal["env_steps", "agent_steps"]
PolicyIds = list[str] | set[str] | tuple[str, ...] | frozenset[str]


def _to_train_problem(value: Any) -> str | None:
    if value is None or callable(value) or (isinstance(value, (list, tuple, set, frozenset))):
        return None
    return "it is a list of policies, a function of a policy and a batch that says yes or no, or None for all"


def _ids(value: Any) -> Any:
    """Return ids in an order of their own, so that the same set makes the same config everywhere."""
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else value


class MultiAgent(DictSettings):
    """Settings of several policies: their specifications, the agents that they act for, and which of them learn."""

    section = "multi_agent"

    policies = Field[dict[str, Any]](
        {DEFAULT_POLICY_ID: PolicySpec()},
        "The policies by their ids, each a PolicySpec; given as ids only, they are as the algorithm makes them.",
        convert=as_specs,
        plain=as_tuples,
        check=policies_problem,
    )
    policy_mapping_fn = Field[Callable[..., Any]](
        default_policy_mapping,
        "Returns the policy of an agent, given its id and, if it takes these, the episode and the runner; or a dict.",
        convert=as_mapping,
    )
    policies_to_train = Field[Any](
        None,
        "The policies that learn: their ids, or a function of id and batch; None for all.",
        convert=_ids,
        check=_to_train_problem,
    )
    observation_fn = Field[Callable[..., Any] | None](
        None, "Called with the observations of all agents of a step, returns those that they get.", since="1.x"
    )
    count_steps_by = Field[CountStepsBy](
        "env_steps", "Whether sizes count steps of environments or of single agents.", since="1.x"
    )
    policy_map_capacity = Field(
        100, "How many policies stay in memory; of others only the state does.", range=(1, None), since="1.x"
    )
    policy_map_cache = Field[str | None](
        None,
        "Where the state of others is kept; None for a directory of the run.",
        convert=lambda value: None if is_deprecated_value(value) else value,
        since="1.x",
        until="1.x",
    )
    policy_states_are_swappable = Field(
        False, "Whether policies that leave memory have the same networks, so that these are used again.", since="2.x"
    )

    @fluent()
    def multi_agent(
        self,
        *,
        policies: Mapping[str, Any] | PolicyIds = NOT_PROVIDED,
        policy_map_capacity: int = NOT_PROVIDED,
        policy_map_cache: str | None = NOT_PROVIDED,
        policy_mapping_fn: Callable[..., Any] | Mapping[Any, str] | None = NOT_PROVIDED,
        policies_to_train: PolicyIds | Callable[..., bool] | None = NOT_PROVIDED,
        policy_states_are_swappable: bool = NOT_PROVIDED,
        observation_fn: Callable[..., Any] | None = NOT_PROVIDED,
        count_steps_by: CountStepsBy = NOT_PROVIDED,
        algorithm_config_overrides_per_module: dict[str, Any] = NOT_PROVIDED,
    ) -> Self:
        """Set which policies there are, which agents they act for, and which of them learn; return this config."""
        return self
