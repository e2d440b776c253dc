"""Trainables: functions and classes that runs execute, and their names."""
