"""Make the names that programs written for Ray import names of kernel. `kernel_compat_ray.names` is the table."""
