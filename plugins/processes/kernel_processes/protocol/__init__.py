"""The messages between processes of a session, and the definitions that both ends of a link share.

Nothing here sends or decides anything. The head, agents and processes with user code all use it.
"""
