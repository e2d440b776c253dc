"""The process that runs a trial, and what it is told; the trainables themselves are those of `kernel_runs`."""
