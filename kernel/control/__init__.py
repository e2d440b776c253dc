"""The control service: what the whole session must agree on (actors and their names, jobs, key-value).

Pure state machines; `kernel.node` carries out what they decide.
"""
