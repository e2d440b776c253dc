"""The keys of Ray's cluster files, of 0.8.5 and of today. Data only.

A key has a meaning here, or none, and then the reason is told once.
"""

from __future__ import annotations

TOP = (
    "auth", "available_node_types", "cluster_name", "cluster_synced_files", "docker", "file_mounts", "head_node",
    "head_node_type", "head_setup_commands", "head_start_ray_commands", "idle_timeout_minutes", "initial_workers",
    "initialization_commands", "max_workers", "min_workers", "provider", "rsync_exclude", "rsync_filter",
    "setup_commands", "worker_nodes", "worker_setup_commands", "worker_start_ray_commands",
)  # fmt: skip
"""Keys at the top that mean something here."""

TOP_WITHOUT_MEANING = {
    "autoscaling_mode": "machines come as soon as work waits for them",
    "default_worker_node_type": "the cheapest kind that holds the work is taken",
    "file_mounts_sync_continuously": "files are copied by `kernel up` and `kernel rsync-up`",
    "metadata": "nothing reads it",
    "no_restart": "say `kernel up --no-restart`",
    "target_utilization_fraction": "machines come as soon as work waits for them, not at a share of use",
    "upscaling_speed": "machines come as fast as work waits for them, up to max_workers",
    "worker_default_node_type": "the cheapest kind that holds the work is taken",
}
"""Keys at the top that have no effect here, with the reason."""

AUTH = ("ssh_port", "ssh_private_key", "ssh_proxy_command", "ssh_public_key", "ssh_user")

DOCKER = (
    "container_name", "head_image", "head_run_options", "image", "pull", "pull_before_run", "run_options", "use_podman",
    "worker_image", "worker_run_options",
)  # fmt: skip
DOCKER_WITHOUT_MEANING = {
    "disable_automatic_runtime_detection": "nothing is added to the options of a container for GPUs: say run_options",
    "disable_shm_size_detection": "a container shares /dev/shm with its machine",
}

NODE_TYPE = ("labels", "max_workers", "min_workers", "node_config", "resources", "worker_setup_commands")
NODE_TYPE_WITHOUT_MEANING = {
    "docker": "all workers have one image: docker.worker_image",
}

PROVIDERS = {
    "aws": "aws", "azure": "azure", "coordinator": "coordinator", "external": "external", "gcp": "gcp",
    "kubernetes": "kubernetes", "local": "local",
}  # fmt: skip
"""What `provider.type` is called here. Others go by their own names: they are plugins."""

LOCAL = ("coordinator_address", "head_ip", "type", "worker_ips")
"""Keys of `provider` where the type is local."""
LOCAL_WITHOUT_MEANING = {
    "cache_stopped_nodes": "the machines are there already",
    "use_internal_ips": "machines are reached at the addresses that the file has",
}
