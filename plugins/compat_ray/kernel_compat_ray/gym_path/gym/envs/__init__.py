"""Environments by their names."""

from gym.envs.registration import make, register, registry, spec

__all__ = ["make", "register", "registry", "spec"]
