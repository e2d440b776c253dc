"""The in-process reference of each contract: the simplest correct form, written to be read.

Local mode runs on these, and they stand in wherever no plugin is installed.
"""
