"""Settings: what users set up a run with, as objects or as dicts of their fields."""
