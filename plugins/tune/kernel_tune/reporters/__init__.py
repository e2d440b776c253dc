"""Reporters: what is shown of an experiment as it runs."""
