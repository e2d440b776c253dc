"""Estimate the value of a policy from episodes of another one."""
