"""Loggers: what trials report, written where people and other programs read it."""
