"""The process that runs a trial, and its orders. The trainables themselves are in `kernel_runs`."""
