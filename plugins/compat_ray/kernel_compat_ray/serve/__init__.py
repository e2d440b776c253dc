"""The names of Ray Serve, of all its generations, that `kernel.serve` does not have."""
