"""Environments by their names."""

from .registration import make, register, registry, spec

__all__ = ["make", "register", "registry", "spec"]
