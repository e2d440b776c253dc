"""What the process of a run sets up: visible GPUs, files for its output, handling of Ctrl-C."""
