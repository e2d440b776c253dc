"""Services of the operating system: processes and how they end, their titles, limits and logs.

Nothing here depends on sessions.
"""
