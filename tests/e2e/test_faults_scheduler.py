"""A scheduler plugin that raises: the session ends, and every program in it learns which plugin and how."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from kernel.exceptions import PluginError, SessionEndedError
from kernel.testing.leaks import no_leaks
from kernel.testing.session import running_session, temporary_root

SECONDS = 120.0

FRAGILE = {
    "fragile-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fragile\nVersion: 1.0\n",
    "fragile-1.0.dist-info/entry_points.txt": "[kernel.plugins]\nscheduler_fragile = fragile_plugin\n",
    "fragile_plugin.py": """
from kernel.defaults.scheduler import LocalScheduler
from kernel_spec import hookimpl
from kernel_spec.scheduling import LeaseRequested, NodeAdded, Tick


class Fragile(LocalScheduler):
    name = "fragile"
    overloaded = False

    def handle(self, event, now):
        if isinstance(event, NodeAdded) and "fragile" in event.labels:
            raise RuntimeError("it fell when it was unpacked")
        if isinstance(event, LeaseRequested) and event.request.name == "boom":
            raise RuntimeError("a wheel came off")
        if isinstance(event, LeaseRequested) and event.request.name == "later":
            self.overloaded = True
        if isinstance(event, Tick) and self.overloaded:
            raise RuntimeError("it broke down on the way")
        return super().handle(event, now)


@hookimpl
def kernel_contracts():
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers():
    return {"fragile": Fragile}
""",
}


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scheduler plugin `fragile` is installed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as site:
        for name, text in FRAGILE.items():
            path = Path(site, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(site)
        yield


def boom() -> None: ...


def later() -> None: ...


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize(("task", "cause"), [(boom, "a wheel came off"), (later, "it broke down on the way")])
def test_the_session_ends_and_says_why(task, cause: str) -> None:  # type: ignore[no-untyped-def]
    with running_session(num_cpus=1, scheduler="fragile"):
        ref = kernel.remote(num_cpus=8)(task).remote()
        text = (
            rf"^the session has ended.*: scheduler plugin 'fragile' raised RuntimeError: {cause}; call kernel.shutdown"
        )
        with pytest.raises(SessionEndedError, match=text):
            kernel.get(ref, timeout=SECONDS)
        for use in (lambda: kernel.get(ref), kernel.nodes, lambda: kernel.remote(task).remote()):
            with pytest.raises(SessionEndedError, match=text):
                use()


@pytest.mark.usefixtures("fragile")
def test_one_that_raises_at_the_start_is_an_error_of_init() -> None:
    with temporary_root() as root, no_leaks(root):
        with pytest.raises(PluginError, match="^scheduler plugin 'fragile' raised RuntimeError: it fell when"):
            kernel.init(temp_dir=root, scheduler="fragile", labels={"fragile": "yes"})
        assert not kernel.is_initialized()
