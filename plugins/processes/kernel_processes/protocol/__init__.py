"""What processes of a session say to each other: the messages, and the few things that both ends must know alike.

Nothing here sends or decides anything. The head, agents and processes with user code all stand on it.
"""
