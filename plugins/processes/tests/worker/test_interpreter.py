"""When a worker needs an interpreter of its own, and what that finds to import."""

from __future__ import annotations

import os

from kernel_processes.worker.interpreter import needs_own, without_library


def test_a_fork_does_unless_a_module_is_imported_already() -> None:
    assert not needs_own("", ())
    assert not needs_own("", ("os",))
    assert not needs_own("/venv/python", ("not_imported_here",))
    assert needs_own("/venv/python", ("not_imported_here", "os"))
    assert needs_own("/venv/python", ()), "what is there can't be told, so nothing may be imported yet"


def test_another_interpreter_has_its_own_library() -> None:
    library = os.path.dirname(os.__file__)
    site = os.path.join(library, "site-packages")
    paths = ["/mine", library, site, "", "/mine", os.path.join(library, "lib-dynload"), "/usr/lib/python311.zip"]
    assert without_library(paths) == ["/mine", site]
