"""Metadata in one SQLite file of the session directory, which outlives the process that wrote it.

`store` is the table, `plugin` offers it to the kernel.
"""
