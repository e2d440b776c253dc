"""Helpers for tests of deployments and of autoscaling policies."""
