"""The public API: remote functions and actors, sessions, and the verbs on references. `kernel/__init__.py` lists it."""
