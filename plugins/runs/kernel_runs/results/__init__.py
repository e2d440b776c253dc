"""Results: what came of a run, read back from its directory."""
