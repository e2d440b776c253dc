"""What programs written for Ray import, as names of kernel. `kernel_compat_ray.names` is the table."""
