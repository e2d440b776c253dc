"""The reference of each contract: the simplest correct form, written to be read and to be built upon.

They are offered by the built-in plugin `local`, and stand in wherever no other plugin is installed.
"""
