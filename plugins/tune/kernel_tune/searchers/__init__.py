"""Searchers: each proposes configurations, one at a time, and learns from how they did. All state machines."""
