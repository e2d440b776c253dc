"""What the operating system is asked for: processes and how they end, their titles, limits and logs.

Nothing here knows what a session is.
"""
