"""The environment: `config.environment("CartPole-v1", env_config={...})`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

_HORIZON = "Older dicts mark it with -1 where nobody has set it."


def _clip_problem(value: Any) -> str | None:
    if isinstance(value, tuple) and not value[0] <= value[1]:
        return "the lower bound is above the upper one"
    if isinstance(value, float) and value <= 0:
        return "rewards are clipped to [-value, value], so it must be above 0; False says not to clip"
    return None


def _unset(value: Any) -> Any:
    return None if is_deprecated_value(value) else value


def _unset_flag(value: Any) -> Any:
    return False if is_deprecated_value(value) else value


def _env_problem(value: Any) -> str | None:
    if value is None or isinstance(value, (str, type)) or callable(value) or hasattr(value, "step"):
        return None if value != "" else "it is empty; name an environment"
    return "an environment is a registered name, a class, or a function that makes one of an EnvContext"


class Environment(DictSettings):
    """Settings of the environment, and of the processing of its rewards and actions."""

    section = "environment"

    env = Field[Any](
        None,
        "The environment: a registered name, a dotted path of a class, a class, or a function that makes one.",
        check=_env_problem,
    )
    env_config = Field[dict[str, Any]](
        {}, "What the environment's constructor gets, as an EnvContext.", merge=True, convert=lambda value: value or {}
    )
    observation_space = Field[Any](None, "The space of observations; None to ask the environment.", since="1.x")
    action_space = Field[Any](None, "The space of actions; None to ask the environment.", since="1.x")
    env_task_fn = Field[Callable[..., Any] | None](
        None,
        "Called as (last_result, env, env_context) after each iteration, for each environment of training: returns its "
        "next task, which set_task() gets.",
        convert=_unset,
        since="1.x",
    )
    render_env = Field[bool | str](
        False,
        "Whether videos are made of episodes 0, 1, 8, 27, ... of the first environment; a text is their directory, "
        "True means that of results.",
    )
    clip_rewards = Field[bool | float | tuple[float, float] | None](
        None,
        "How rewards are clipped before learning: to their sign (True), to [-value, value], to a pair of bounds, never "
        "(False), or to their sign for Atari only (None).",
        check=_clip_problem,
    )
    normalize_actions = Field(
        True,
        "Whether the policy acts in [-1, 1], and actions are stretched to the bounds of the space for the environment.",
        older={"0.8.5": False},
    )
    clip_actions = Field(
        False, "Whether actions are clipped to the bounds of the space for the environment.", older={"0.8.5": True}
    )
    disable_env_checking = Field(
        False, "Whether the trial steps are left out that find wrong environments.", since="1.x"
    )
    is_atari = Field[bool | None](None, "Whether it is an Atari game; None to tell by its name.", since="2.x")
    action_mask_key = Field(
        "action_mask", "Where in a dict of observations the mask of allowed actions is.", since="2.x"
    )
    auto_wrap_old_gym_envs = Field(
        True,
        "Whether environments of the old gym, with four results of a step, are taken.",
        since="2.x",
        until="2.x",
        inert="they always are",
    )
    horizon = Field[int | None](
        None,
        f"After how many steps an episode is cut; None: only where the environment says so. {_HORIZON}",
        range=(1, None),
        unit="env steps",
        convert=_unset,
        until="1.x",
    )
    soft_horizon = Field(
        False,
        f"Whether the environment is not reset where the horizon cuts. {_HORIZON}",
        convert=_unset_flag,
        until="1.x",
    )
    no_done_at_end = Field(
        False, f"Whether ends of episodes count as cuts, not as ends. {_HORIZON}", convert=_unset_flag, until="1.x"
    )

    @fluent()
    def environment(
        self,
        env: str | type | Callable[..., Any] | None = NOT_PROVIDED,
        *,
        env_config: dict[str, Any] = NOT_PROVIDED,
        observation_space: Any = NOT_PROVIDED,
        action_space: Any = NOT_PROVIDED,
        env_task_fn: Callable[..., Any] | None = NOT_PROVIDED,
        render_env: bool | str = NOT_PROVIDED,
        clip_rewards: bool | float | tuple[float, float] | None = NOT_PROVIDED,
        normalize_actions: bool = NOT_PROVIDED,
        clip_actions: bool = NOT_PROVIDED,
        disable_env_checking: bool = NOT_PROVIDED,
        is_atari: bool | None = NOT_PROVIDED,
        action_mask_key: str = NOT_PROVIDED,
        auto_wrap_old_gym_envs: bool = NOT_PROVIDED,
        horizon: int | None = NOT_PROVIDED,
        soft_horizon: bool = NOT_PROVIDED,
        no_done_at_end: bool = NOT_PROVIDED,
    ) -> Self:
        """Set the environment, and what becomes of rewards and actions on the way; return this config."""
        return self
