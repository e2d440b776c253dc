"""Experiments: what to train, with which settings, until when. Files of them, tuned ones among them, and their runs."""
