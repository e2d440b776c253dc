"""Callbacks for other libraries: they report to a trial as those libraries train."""
