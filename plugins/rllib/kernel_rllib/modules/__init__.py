"""Modules: networks as data, and pure functions of a flat vector of parameters."""
