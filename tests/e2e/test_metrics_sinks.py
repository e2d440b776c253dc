"""A stranger's sink is handed the metrics of a session, to the last; one that raises is named."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session

SECONDS = 120.0
STRANGER = """
    import json
    from kernel_spec import hookimpl

    class Sink:
        interval = 0.1

        def __init__(self, *, path="", breaks=False):
            self._path = path
            self._breaks = breaks

        def _write(self, line):
            with open(self._path, "a") as file:
                file.write(json.dumps(line) + "\\n")

        def take(self, now, families):
            if self._breaks:
                raise RuntimeError("a wheel came off")
            self._write({family.name: family.samples for family in families})

        def close(self):
            self._write("closed")

    @hookimpl
    def kernel_contracts():
        return {"metrics_sink": 1}

    @hookimpl
    def kernel_metrics_sinks():
        return {"stranger": Sink}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a stranger's plugin and choose its sink; return the file that it writes."""
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kernel.plugins]\nstranger = stranger_plugin\n")
    (tmp_path / "stranger_plugin.py").write_text(textwrap.dedent(STRANGER))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("KERNEL_METRICS_SINKS", "stranger")
    monkeypatch.setenv("KERNEL_OPTION_STRANGER_PATH", str(tmp_path / "written"))
    sys.modules.pop("stranger_plugin", None)
    return tmp_path / "written"


def lines(path: Path) -> list[Any]:
    """Return the whole lines of the file."""
    text = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def test_a_strangers_sink_gets_all_numbers_to_the_last(written: Path) -> None:
    with running_session(num_cpus=1):
        counter = kernel.metrics.Counter("sink_total", tag_keys=("kind",))

        @kernel.remote
        def count() -> None:
            counter.inc(tags={"kind": "x"})

        kernel.get([count.remote() for _ in range(3)], timeout=SECONDS)
        wait_until(
            lambda: any(line.get("sink_total") == [[["x"], 3.0]] for line in lines(written)), SECONDS, "the sum of 3"
        )
        assert all(line["kernel_nodes"] == [[["ALIVE"], 1]] for line in lines(written))
        kernel.get([count.remote() for _ in range(4)], timeout=SECONDS)
    wait_until(lambda: lines(written)[-1] == "closed", SECONDS, "the end of the sink")
    assert lines(written)[-2]["sink_total"] == [[["x"], 7.0]]


def test_a_sink_that_raises_is_named(
    written: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNEL_OPTION_STRANGER_BREAKS", "true")
    seen = ""

    def is_told() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        return "it is asked no more" in seen

    with running_session(num_cpus=1):
        wait_until(is_told, SECONDS, "the fault")
    assert "the metrics sink 'stranger'" in seen and "RuntimeError: a wheel came off" in seen
    assert lines(written) == []


def test_the_kernels_own_sink_writes_for_prometheus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers.prom"
    monkeypatch.setenv("KERNEL_METRICS_SINKS", "text_file")
    options = {"text_file": {"path": str(path), "interval": 0.1}}
    with running_session(num_cpus=1, plugin_options=options):
        wait_until(lambda: path.exists() and 'kernel_nodes{state="ALIVE"} 1\n' in path.read_text(), SECONDS, "the file")
