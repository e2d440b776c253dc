"""Search spaces: what may be chosen for a hyperparameter, and every way to choose it."""
