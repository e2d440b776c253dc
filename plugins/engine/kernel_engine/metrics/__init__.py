"""Metrics of engines, read from their state when they are asked for."""
