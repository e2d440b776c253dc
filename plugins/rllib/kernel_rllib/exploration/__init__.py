"""Exploration: how actions are chosen from what a module gives, while training and without."""
