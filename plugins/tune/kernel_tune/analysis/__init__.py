"""Analysis: finished experiments as objects, tables and pictures."""
