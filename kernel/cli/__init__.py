"""The command line: `kernel ...`. Each command is one file here; `main` loads only the one that is asked for.

A command talks to a session as a light client of its node agent (`client`): it asks, and changes nothing.
"""
