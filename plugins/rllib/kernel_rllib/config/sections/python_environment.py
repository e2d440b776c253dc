"""Variables of the environment of processes: `config.python_environment(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


def _values_problem(value: dict[str, Any]) -> str | None:
    wrong = next((key for key, each in value.items() if not isinstance(each, str)), None)
    return None if wrong is None else f"the value of {wrong} must be text, as variables of the environment are"


class PythonEnvironment(DictSettings):
    """Variables of the environment of the algorithm's process and of runners."""

    section = "python_environment"

    extra_python_environs_for_driver = Field[dict[str, str]](
        {}, 'Variables of the algorithm\'s process: {"OMP_NUM_THREADS": "16"}.', check=_values_problem
    )
    extra_python_environs_for_worker = Field[dict[str, str]](
        {}, "Variables of runners' processes.", check=_values_problem
    )

    @fluent()
    def python_environment(
        self,
        *,
        extra_python_environs_for_driver: dict[str, str] = NOT_PROVIDED,
        extra_python_environs_for_worker: dict[str, str] = NOT_PROVIDED,
    ) -> Self:
        """Set variables of the environment of processes; return this config."""
        return self
