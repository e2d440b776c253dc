"""Runners: lanes of environments, the module that acts in them, and the actors and groups that run many of them."""
