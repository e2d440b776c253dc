"""Recorded experience: `config.offline_data(input_="/tmp/cartpole-out", output=None)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

Source = str | list[str] | dict[str, float] | Callable[..., Any]

_RUNNERS = "env_runners() and evaluation() say how many processes read"
_TAKEN = {"num_cpus_per_read_task": "num_cpus_per_env_runner", "parallelism": "num_env_runners"}


def _source_problem(value: Any) -> str | None:
    if isinstance(value, dict):
        wrong = next((key for key, share in value.items() if not isinstance(share, (int, float)) or share < 0), None)
        if wrong is not None:
            return f"the share of {wrong!r} must be a number from 0 on"
        if not value or not sum(value.values()):
            return "the shares add up to nothing"
    if isinstance(value, (list, str)) and not value:
        return "it is empty; name a source, or 'sampler' for the environment"
    return None


def _input_config_problem(value: dict[str, Any]) -> str | None:
    taken = next((key for key in _TAKEN if value.get(key) is not None), None)
    return None if taken is None else f"{taken} is not set here, but by {_TAKEN[taken]}: {_RUNNERS}"


class OfflineData(DictSettings):
    """Settings of recorded experience: where it is read from, and where new experience is written to."""

    section = "offline_data"

    input_ = Field[Source](
        "sampler",
        "Where experience comes from: the environment ('sampler'), files, a dict of sources with their shares, a "
        "registered name, or a function that makes a reader.",
        check=_source_problem,
    )
    input_config = Field[dict[str, Any]](
        {}, "What the reader gets: format, path.", check=_input_config_problem, since="1.x"
    )
    input_read_method = Field[str | Callable[..., Any]]("read_parquet", "The reader of datasets.", since="current")
    input_read_method_kwargs = Field[dict[str, Any]]({}, "Arguments of that reader.", since="current")
    input_read_schema = Field[dict[str, str]]({}, "Names of columns where they aren't the usual ones.", since="current")
    input_read_episodes = Field(False, "Whether rows are whole episodes.", since="current")
    input_read_sample_batches = Field(False, "Whether rows are batches.", since="current")
    input_read_batch_size = Field[int | None](None, "Rows of a read.", range=(1, None), since="current")
    input_filesystem = Field[Any](None, "Where files are: a name such as 's3', or a file system.", since="current")
    input_filesystem_kwargs = Field[dict[str, Any]]({}, "Arguments of that file system.", since="current")
    input_compress_columns = Field[list[str]](
        ["obs", "new_obs"], "Columns that are compressed in the input.", since="current"
    )
    input_spaces_jsonable = Field(True, "Whether spaces in the input are JSON.", since="current")
    offline_data_class = Field[type | None](None, "A class that reads; None for the usual one.", since="current")
    materialize_data = Field(False, "Whether all data is read into memory at first.", since="current")
    materialize_mapped_data = Field(True, "Whether what is made of it stays in memory.", since="current")
    map_batches_kwargs = Field[dict[str, Any]]({}, "Arguments of the mapping over batches.", since="current")
    iter_batches_kwargs = Field[dict[str, Any]]({}, "Arguments of the iteration over batches.", since="current")
    ignore_final_observation = Field(
        False, "Whether the last observation of an episode may be missing.", since="current"
    )
    prelearner_class = Field[type | None](
        None, "A class that prepares batches; None for the usual one.", since="current"
    )
    prelearner_buffer_class = Field[type | None](None, "A class that it keeps episodes in.", since="current")
    prelearner_buffer_kwargs = Field[dict[str, Any]]({}, "Arguments of that class.", since="current")
    prelearner_module_synch_period = Field(
        10, "After how many updates it gets new weights.", range=(1, None), since="current"
    )
    prelearner_use_recorded_module_states = Field(
        False, "Whether recurrent states are those in the data.", since="current"
    )
    dataset_num_iters_per_learner = Field[int | None](
        None, "Batches of an update; None: all data.", range=(1, None), since="current"
    )
    actions_in_input_normalized = Field(False, "Whether actions in the input are in [-1, 1].", since="1.x")
    postprocess_inputs = Field(
        False, "Whether advantages and such are computed, by the present policy.",
        inert="recorded steps are as they were made, and what is computed of them always is by the present policy",
    )  # fmt: skip
    shuffle_buffer_size = Field(
        0, "How many batches are mixed before they are used; 0: none.", range=(0, None), unit="batches"
    )
    offline_sampling = Field(
        False,
        "Whether sampling is reading, so that batches aren't bounded by environments.",
        since="2.x",
        inert="whole batches are read, however many environments there are",
    )
    output = Field[str | Callable[..., Any] | None](
        None,
        "Where experience is written to: a directory or address, 'logdir', a function that makes a writer, or None.",
    )
    output_config = Field[dict[str, Any]]({}, "What the writer gets.", since="1.x")
    output_compress_columns = Field[list[str]](["obs", "new_obs"], "Columns that are compressed in the output.")
    output_max_file_size = Field[int | None](
        64 * 1024 * 1024, "Where a new file begins.", range=(1, None), unit="bytes"
    )
    output_max_rows_per_file = Field[int | None](None, "Where a new file begins.", range=(1, None), since="current")
    output_write_remaining_data = Field(False, "Whether a last file may be short.", since="current")
    output_write_method = Field("write_parquet", "The writer of datasets.", since="current")
    output_write_method_kwargs = Field[dict[str, Any]]({}, "Arguments of that writer.", since="current")
    output_filesystem = Field[Any](None, "Where files go: a name such as 's3', or a file system.", since="current")
    output_filesystem_kwargs = Field[dict[str, Any]]({}, "Arguments of that file system.", since="current")
    output_write_episodes = Field(True, "Whether rows are whole episodes.", since="current")

    @fluent()
    def offline_data(
        self,
        *,
        input_: Source = NOT_PROVIDED,
        input_config: dict[str, Any] = NOT_PROVIDED,
        input_read_method: str | Callable[..., Any] = NOT_PROVIDED,
        input_read_method_kwargs: dict[str, Any] = NOT_PROVIDED,
        input_read_schema: dict[str, str] = NOT_PROVIDED,
        input_read_episodes: bool = NOT_PROVIDED,
        input_read_sample_batches: bool = NOT_PROVIDED,
        input_read_batch_size: int | None = NOT_PROVIDED,
        input_filesystem: Any = NOT_PROVIDED,
        input_filesystem_kwargs: dict[str, Any] = NOT_PROVIDED,
        input_compress_columns: list[str] = NOT_PROVIDED,
        input_spaces_jsonable: bool = NOT_PROVIDED,
        offline_data_class: type | None = NOT_PROVIDED,
        materialize_data: bool = NOT_PROVIDED,
        materialize_mapped_data: bool = NOT_PROVIDED,
        map_batches_kwargs: dict[str, Any] = NOT_PROVIDED,
        iter_batches_kwargs: dict[str, Any] = NOT_PROVIDED,
        ignore_final_observation: bool = NOT_PROVIDED,
        prelearner_class: type | None = NOT_PROVIDED,
        prelearner_buffer_class: type | None = NOT_PROVIDED,
        prelearner_buffer_kwargs: dict[str, Any] = NOT_PROVIDED,
        prelearner_module_synch_period: int = NOT_PROVIDED,
        prelearner_use_recorded_module_states: bool = NOT_PROVIDED,
        dataset_num_iters_per_learner: int | None = NOT_PROVIDED,
        actions_in_input_normalized: bool = NOT_PROVIDED,
        postprocess_inputs: bool = NOT_PROVIDED,
        shuffle_buffer_size: int = NOT_PROVIDED,
        offline_sampling: bool = NOT_PROVIDED,
        output: str | Callable[..., Any] | None = NOT_PROVIDED,
        output_config: dict[str, Any] = NOT_PROVIDED,
        output_compress_columns: list[str] = NOT_PROVIDED,
        output_max_file_size: int | None = NOT_PROVIDED,
        output_max_rows_per_file: int | None = NOT_PROVIDED,
        output_write_remaining_data: bool = NOT_PROVIDED,
        output_write_method: str = NOT_PROVIDED,
        output_write_method_kwargs: dict[str, Any] = NOT_PROVIDED,
        output_filesystem: Any = NOT_PROVIDED,
        output_filesystem_kwargs: dict[str, Any] = NOT_PROVIDED,
        output_write_episodes: bool = NOT_PROVIDED,
        input_evaluation: list[str] = NOT_PROVIDED,
    ) -> Self:
        """Set where recorded experience is read from, and where new one is written to; return this config."""
        return self
