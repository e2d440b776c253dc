"""`python -m kernel_compat_ray SCRIPT [ARGUMENTS]`: the same as `kernel ray-run`."""

import sys

from kernel_compat_ray.run_command import ray_run

if __name__ == "__main__":
    ray_run.main(sys.argv[1:], prog_name="python -m kernel_compat_ray")
