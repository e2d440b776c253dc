"""NVIDIA GPUs: found by NVML, shown to a worker through `CUDA_VISIBLE_DEVICES`.

`accelerator` answers the kernel, `visible` understands the variable, `nvml` asks the driver.
"""

from kernel_accelerator_nvidia.accelerator import NvidiaAccelerator

__all__ = ["NvidiaAccelerator"]
