"""Storage: the log and the state of an experiment, and files that travel with its trials."""
