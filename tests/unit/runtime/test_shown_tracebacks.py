"""Which entries of a traceback users see, and that nothing of an error is changed for good."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

import kernel
from kernel.api import display_hooks
from kernel.runtime.critical_sections import from_outside
from kernel.runtime.hints import hint_of
from kernel.runtime.shown_tracebacks import UsersLines, for_users, users_part
from kernel_spec.errors import InternalError, OptionError

OWN = os.path.join(os.path.dirname(kernel.__file__), "runtime", "imagined.py")
LIBRARY = "/somewhere/kernel_library/tuner.py"


def made_in(file: str, source: str, **names: Any) -> Any:
    """Return the function `f` of a source that counts as the text of `file`."""
    namespace = {"__name__": "made", **names}
    exec(compile(source, file, "exec"), namespace)
    return namespace["f"]


def raised(call: Callable[[], object]) -> BaseException:
    """Return what a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


def names(error: BaseException) -> list[str]:
    """Return the files of the entries that users see of an error."""
    return [os.path.basename(entry.filename) for entry in traceback.extract_tb(users_part(error, error.__traceback__))]


HERE = os.path.basename(__file__)


def raises(error: BaseException) -> Any:
    """Return a function of ours that raises an error."""
    return made_in(OWN, "def f(): raise error", error=error)


@pytest.mark.parametrize("kind", [OptionError, TypeError, AttributeError])
def test_what_we_raise_is_told_by_its_message(kind: type[Exception]) -> None:
    assert names(raised(raises(kind("said")))) == [HERE]


def test_a_mistake_of_ours_shows_all_of_it() -> None:
    for source in ("def f(): return {}['nothing']", "import json\ndef f(): return json.loads('nothing')"):
        assert names(raised(made_in(OWN, source)))[:2] == [HERE, "imagined.py"]
    assert names(raised(raises(InternalError("ours")))) == [HERE, "imagined.py"]


def test_an_error_of_code_that_we_call_shows_that_and_who_called_us() -> None:
    def users() -> None:
        raise KeyError("the user's")

    assert names(raised(made_in(OWN, "def f(): return users()", users=users))) == [HERE, HERE]


def test_a_ctrl_c_says_nothing_of_what_it_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.mounts._mounted", {"library": "kernel_library"})
    waits = made_in(threading.__file__, "def f(): raise KeyboardInterrupt")
    for file, name in ((OWN, "kernel.imagined"), (LIBRARY, "kernel_library.tuner")):
        ours = made_in(file, "def f(): return waits()", waits=waits, __name__=name)
        assert names(raised(ours)) == [HERE], file
    assert names(raised(waits)) == [HERE, "threading.py"]


def test_what_a_signal_handler_raises_shows_the_users_lines() -> None:
    assert names(raised(made_in(OWN, "def f(): raise error", error=from_outside(MemoryError())))) == [HERE]
    struck = made_in(OWN, "def f(): return 1 / zero", zero=0)
    assert names(from_outside(raised(struck))) == [HERE]


def test_for_users_leaves_nothing_where_all_is_ours() -> None:
    error = raised(raises(OptionError("said")))
    error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
    assert for_users(error).__traceback__ is None


def test_all_errors_of_a_chain_are_cut_and_whole_again_afterwards() -> None:
    def fails() -> None:
        try:
            raises(OptionError("first"))()
        except OptionError as error:
            raise ValueError("second") from error

    error = raised(fails)
    before = "".join(traceback.format_exception(error))
    with UsersLines(error):
        assert "imagined.py" not in "".join(traceback.format_exception(error))
    assert "".join(traceback.format_exception(error)) == before and "imagined.py" in before


def test_an_error_without_any_line_of_users_is_shown_whole() -> None:
    error = raised(raises(OptionError("said")))
    error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
    with UsersLines(error):
        assert "imagined.py" in "".join(traceback.format_exception(error))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of exceptions came with Python 3.11")
def test_members_of_a_group_are_cut() -> None:
    member = raised(raises(OptionError("said")))
    group = BaseExceptionGroup("several", [member])  # type: ignore[name-defined]  # noqa: F821
    with UsersLines(group):
        assert "imagined.py" not in "".join(traceback.format_exception(group))


# -- the hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_that_were_there_are_called_and_ours_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, tb: seen.append(traceback.format_tb(tb)))
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(traceback.format_tb(args.exc_traceback)))
    display_hooks.install()
    program, thread = sys.excepthook, threading.excepthook
    display_hooks.install()
    assert (sys.excepthook, threading.excepthook) == (program, thread)
    error = raised(raises(OptionError("said")))
    sys.excepthook(type(error), error, error.__traceback__)
    threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
    threading.excepthook(threading.ExceptHookArgs((SystemExit, None, None, None)))
    assert len(seen) == 3 and "imagined.py" not in str(seen) and HERE in seen[0][0] and HERE in seen[1][0]
    assert "imagined.py" in "".join(traceback.format_exception(error))


def test_a_traceback_that_is_not_the_errors_own_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, tb: seen.append(tb))
    display_hooks.install()
    error = raised(raises(OptionError("said")))
    given, error.__traceback__ = error.__traceback__, None
    sys.excepthook(type(error), error, given)
    assert [os.path.basename(entry.filename) for entry in traceback.extract_tb(seen[0])] == [HERE]


def test_ipython_has_its_formatter_wrapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def structured_traceback(
        kind: Any, error: Any, tb: Any = None, tb_offset: Any = None, context: int = 5
    ) -> list[str]:
        seen.append((tb, tb_offset, context))
        return ["formatted"]

    formatter = SimpleNamespace(structured_traceback=structured_traceback)
    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(InteractiveTB=formatter))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    display_hooks.install()
    wrapped = formatter.structured_traceback
    display_hooks.install()
    assert formatter.structured_traceback is wrapped is not structured_traceback
    assert not isinstance(wrapped, FunctionType)
    error = raised(raises(OptionError("said")))
    assert wrapped(type(error), error, error.__traceback__, tb_offset=1) == ["formatted"]
    assert wrapped(None, None, None, 2, 7) == ["formatted"]
    assert len(traceback.extract_tb(seen[0][0])) == 1 and seen[0][1:] == (1, 5) and seen[1] == (None, 2, 7)


@pytest.mark.parametrize("file", [OWN, LIBRARY])
def test_nothing_is_loaded_for_an_error_that_has_no_line_of_ours(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, tb: seen.append(tb))
    monkeypatch.setattr(threading, "excepthook", lambda failure: seen.append(failure.exc_traceback))
    display_hooks.install()
    loaded = "kernel.runtime.shown_tracebacks"
    monkeypatch.setattr(loaded, sys.modules[loaded])  # which is what it is again afterwards
    module = "kernel.runtime.imagined" if file == OWN else "kernel_library"
    error = raised(made_in(file, "def f(): raise OptionError", OptionError=OptionError, __name__=module))
    for show in (
        lambda: sys.excepthook(type(error), error, error.__traceback__),
        lambda: threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None))),
    ):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
        show()
        assert (loaded in sys.modules) is (file == OWN)
    assert [len(traceback.extract_tb(tb)) for tb in seen] == ([1, 1] if file == OWN else [2, 2])


def test_hooks_are_set_without_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    for ipython in (None, SimpleNamespace(), SimpleNamespace(get_ipython=lambda: None)):
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        display_hooks.install()
    assert isinstance(sys.excepthook, display_hooks._ProgramHook)


# -- hints -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("assignment destination is read-only"), "array.copy()"),
        (TypeError("it is read-only"), None),
        (ValueError("anything"), None),
        (TypeError("'ObjectRef' object is not callable"), "a reference stands for"),
        (AttributeError("'ObjectRef' object has no attribute 'a'"), "a reference stands for"),
        (TypeError("'ObjectRefGenerator' object is not subscriptable"), "a stream yields"),
        (RuntimeError("about an ObjectRef"), None),
        (OptionError("about an ObjectRef"), None),
        (TypeError("about an ObjectReference"), None),
    ],
)
def test_hints_are_for_what_python_says_of_ours(error: Exception, expected: str | None) -> None:
    hint = hint_of(error, str(error))
    assert (hint is None) is (expected is None) and (expected or "") in (hint or "")


@pytest.mark.parametrize("notes", [None, ["mine"]])
def test_a_hint_is_there_while_an_error_is_shown_in_a_session(
    notes: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error: Any = TypeError("'ObjectRef' object is not callable")
    if notes is not None:
        error.__notes__ = notes
    with UsersLines(error):
        assert getattr(error, "__notes__", None) == notes  # without a session there are no references
    monkeypatch.setattr("kernel.runtime.shown_tracebacks.find_runtime", lambda: "a session")
    with UsersLines(error):
        assert error.__notes__[:-1] == (notes or []) and "a reference stands for" in error.__notes__[-1]
    assert getattr(error, "__notes__", None) == notes
    plain: Any = TypeError("anything")
    with UsersLines(plain):
        assert not hasattr(plain, "__notes__")
