"""The messages of a session's processes about tasks and objects.

Local mode uses them within one process. Nothing here sends anything.
"""
