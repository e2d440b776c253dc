"""Runs the tests of a conformance suite without pytest, up to the first that fails: for tests of the suites."""

from __future__ import annotations


def first_failure(suite: type) -> str | None:
    """Return the name of the first test in `suite` that fails, None when all pass. Its tests take no arguments."""
    for name in [name for name in dir(suite) if name.startswith("test_")]:
        try:
            getattr(suite(), name)()
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a wrong implementation raises is the answer
            return name
    return None
