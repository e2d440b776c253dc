"""Recorded experience: files of it that are read and written, and runners that read in place of stepping."""
