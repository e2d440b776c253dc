"""Names of Ray that are plain values. Data only."""

from __future__ import annotations

from kernel_compat_ray.accelerator_names import ACCELERATORS

_FILES: dict[str, str] = {
    "EXPR_ERROR_FILE": "error.txt", "EXPR_ERROR_PICKLE_FILE": "error.pkl", "EXPR_PARAM_FILE": "params.json",
    "EXPR_PARAM_PICKLE_FILE": "params.pkl", "EXPR_PROGRESS_FILE": "progress.csv", "EXPR_RESULT_FILE": "result.json",
    "TIMESTAMP": "timestamp", "TIME_THIS_ITER_S": "time_this_iter_s", "TRAINING_ITERATION": "training_iteration",
}  # fmt: skip

CONSTANTS: dict[str, object] = {
    "ray.__commit__": "kernel",
    "ray.LOCAL_MODE": 2, "ray.PYTHON_MODE": 2, "ray.SCRIPT_MODE": 0, "ray.SILENT_MODE": 3, "ray.WORKER_MODE": 1,
    "ray._private.ray_constants.INFINITE_RECONSTRUCTION": -1,
    "ray._private.ray_constants.ID_SIZE": 20,
    "ray._raylet.OPTIMIZED": True,
    **{f"ray.util.accelerators.{name}": model for name, model in ACCELERATORS.items()},
    **{f"ray.air.constants.{name}": value for name, value in _FILES.items()},
}  # fmt: skip
