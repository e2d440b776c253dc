"""Storage: the log of an experiment, where it stands, and files that travel with its trials."""
