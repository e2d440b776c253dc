"""The library that computes updates: `config.framework("torch")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

FrameworkName = Literal["auto", "numpy", "torch", "tf", "tf2"]
_TENSORFLOW = "the default backend trains, and a TensorFlow model makes sessions of its own"


def _framework_name(value: Any) -> Any:
    if value is None:
        return "auto"
    name = value.lower() if isinstance(value, str) else value
    return {"tfe": "tf2", "pytorch": "torch", "tensorflow": "tf2"}.get(name, name)


class Framework(DictSettings):
    """The library that computes updates, and how it is driven."""

    section = "framework"

    framework_str = Field[FrameworkName](
        "auto",
        "Which library learns: numpy, torch, TensorFlow for your own models (tf, tf2), or what suits the work (auto).",
        convert=_framework_name,
    )
    eager_tracing = Field(True, "Whether TensorFlow code is traced once and then run as a graph.", older={"2.x": False})
    eager_max_retraces = Field[int | None](
        20, "How often it may be traced again before that is an error; None: always.", range=(0, None), since="1.x"
    )
    no_eager_on_workers = Field(
        False, "Whether only the learner is eager.", until="0.8.5", inert="runners compute in numpy"
    )
    tf_session_args = Field[dict[str, Any]](
        {
            "intra_op_parallelism_threads": 2,
            "inter_op_parallelism_threads": 2,
            "gpu_options": {"allow_growth": True},
            "log_device_placement": False,
            "device_count": {"CPU": 1},
            "allow_soft_placement": True,
        },
        "Arguments of TensorFlow sessions.",
        merge=True,
        inert=_TENSORFLOW,
    )
    local_tf_session_args = Field[dict[str, Any]](
        {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8},
        "Those that are others in the learner.",
        merge=True,
        inert=_TENSORFLOW,
    )
    torch_compile_learner = Field(False, "Whether torch compiles what the learner computes.", since="2.x")
    torch_compile_learner_what_to_compile = Field[Literal["forward_train", "complete_update"]](
        "forward_train", "Whether the forward pass is compiled or the whole update.", since="2.x",
        convert=lambda value: getattr(value, "value", value),
    )  # fmt: skip
    torch_compile_learner_dynamo_backend = Field[str | None]("inductor", "The compiler for the learner.", since="2.x")
    torch_compile_learner_dynamo_mode = Field[str | None](None, "The compiler's mode for the learner.", since="2.x")
    torch_compile_worker = Field(
        False, "Whether torch compiles what runners compute.", since="2.x", inert="runners compute in numpy"
    )
    torch_compile_worker_dynamo_backend = Field[str | None](
        "onnxrt", "The compiler for runners.", since="2.x", inert="runners compute in numpy"
    )
    torch_compile_worker_dynamo_mode = Field[str | None](
        None, "The compiler's mode for runners.", since="2.x", inert="runners compute in numpy"
    )
    torch_ddp_kwargs = Field[dict[str, Any]]({}, "Arguments of DistributedDataParallel.", since="current")
    torch_skip_nan_gradients = Field(
        False, "Whether updates whose gradients are not all finite are left out.", since="current"
    )

    @fluent()
    def framework(
        self,
        framework: FrameworkName | Literal["tfe"] | None = NOT_PROVIDED,
        *,
        eager_tracing: bool = NOT_PROVIDED,
        eager_max_retraces: int | None = NOT_PROVIDED,
        no_eager_on_workers: bool = NOT_PROVIDED,
        tf_session_args: dict[str, Any] = NOT_PROVIDED,
        local_tf_session_args: dict[str, Any] = NOT_PROVIDED,
        torch_compile_learner: bool = NOT_PROVIDED,
        torch_compile_learner_what_to_compile: Literal["forward_train", "complete_update"] = NOT_PROVIDED,
        torch_compile_learner_dynamo_backend: str | None = NOT_PROVIDED,
        torch_compile_learner_dynamo_mode: str | None = NOT_PROVIDED,
        torch_compile_worker: bool = NOT_PROVIDED,
        torch_compile_worker_dynamo_backend: str | None = NOT_PROVIDED,
        torch_compile_worker_dynamo_mode: str | None = NOT_PROVIDED,
        torch_ddp_kwargs: dict[str, Any] = NOT_PROVIDED,
        torch_skip_nan_gradients: bool = NOT_PROVIDED,
    ) -> Self:
        """Set the library that computes updates, and how it is driven; return this config."""
        return self
