"""Shared tools of this library's tests, for tests of environments, networks and losses written elsewhere too."""
