"""Tasks: what was submitted and has not ended, its arguments, how one call is run, and what ran when."""
