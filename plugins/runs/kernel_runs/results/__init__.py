"""Results of runs, read from their directories."""
