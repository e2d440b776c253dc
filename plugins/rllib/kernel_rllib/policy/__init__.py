"""Policies as users ask for them: what acts and learns, seen from outside. What they are made of is below."""
