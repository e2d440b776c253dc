"""What the processes of a session say to each other about tasks and objects.

Local mode says it within one process. Nothing here sends anything.
"""
