"""Names of Ray that are plain values. Data only."""

from __future__ import annotations

_ACCELERATORS: dict[str, str] = {
    "AMD_INSTINCT_MI100": "AMD-Instinct-MI100", "AMD_INSTINCT_MI210": "AMD-Instinct-MI210",
    "AMD_INSTINCT_MI250": "AMD-Instinct-MI250X-MI250", "AMD_INSTINCT_MI250x": "AMD-Instinct-MI250X",
    "AMD_INSTINCT_MI300x": "AMD-Instinct-MI300X-OAM", "AMD_RADEON_HD_7900": "AMD-Radeon-HD-7900",
    "AMD_RADEON_R9_200_HD_7900": "AMD-Radeon-R9-200-HD-7900", "AWS_NEURON_CORE": "aws-neuron-core",
    "GOOGLE_TPU_V2": "TPU-V2", "GOOGLE_TPU_V3": "TPU-V3", "GOOGLE_TPU_V4": "TPU-V4",
    "GOOGLE_TPU_V5LITEPOD": "TPU-V5LITEPOD", "GOOGLE_TPU_V5P": "TPU-V5P", "GOOGLE_TPU_V6E": "TPU-V6E",
    "GOOGLE_TPU_V7X": "TPU-V7X", "INTEL_GAUDI": "Intel-GAUDI", "INTEL_MAX_1100": "Intel-GPU-Max-1100",
    "INTEL_MAX_1550": "Intel-GPU-Max-1550", "NVIDIA_A100": "A100", "NVIDIA_A100_40G": "A100-40G",
    "NVIDIA_A100_80G": "A100-80G", "NVIDIA_H100": "H100", "NVIDIA_L4": "L4", "NVIDIA_TESLA_A100": "A100",
    "NVIDIA_TESLA_A10G": "A10G", "NVIDIA_TESLA_K80": "K80", "NVIDIA_TESLA_P100": "P100", "NVIDIA_TESLA_P4": "P4",
    "NVIDIA_TESLA_T4": "T4", "NVIDIA_TESLA_V100": "V100",
}  # fmt: skip
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
    **{f"ray.util.accelerators.{name}": value for name, value in _ACCELERATORS.items()},
    **{f"ray.air.constants.{name}": value for name, value in _FILES.items()},
}  # fmt: skip
