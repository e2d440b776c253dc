"""`kernel certificates`: what is written, who may read it, and what is said when it ends."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from kernel.cli.main import main
from kernel_processes.cli import certificates


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["certificates", *arguments])
    output, errors = capsys.readouterr()
    return code, output, errors


def test_create_show_and_renew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "tls"
    code, output, _ = run(capsys, "create", str(directory), "--name", "head.example", "--name", "10.0.0.1")
    assert code == 0 and "keep ca.key to yourself" in output
    assert sorted(os.listdir(directory)) == ["ca.key", "ca.pem", "node.key", "node.pem"]
    assert {os.stat(directory / name).st_mode & 0o777 for name in os.listdir(directory)} == {0o600}
    code, output, errors = run(capsys, "show", str(directory))
    assert code == 0 and errors == ""
    assert "head.example, 10.0.0.1" in output and output.count("valid") == 2
    before = (directory / "node.pem").read_bytes()
    authority = (directory / "ca.pem").read_bytes()
    assert run(capsys, "renew", str(directory), "--days", "10")[0] == 0
    assert (directory / "node.pem").read_bytes() != before
    assert (directory / "ca.pem").read_bytes() == authority
    code, _, errors = run(capsys, "show", str(directory))
    assert code == 0 and f"node.pem expires in 9 days; run: kernel certificates renew {directory}" in errors
    rows = json.loads(run(capsys, "show", str(directory), "--json")[1])
    assert [row["state"] for row in rows] == ["valid", "expires soon"]


@pytest.mark.parametrize(("days_ago", "said"), [(20, "is expired"), (-20, "is not valid yet")])
def test_show_fails_when_one_is_not_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days_ago: int, said: str
) -> None:
    certificates.create(tmp_path)
    certificates.renew(tmp_path, days=10, now=datetime.now(timezone.utc) - timedelta(days=days_ago))
    code, _, errors = run(capsys, "show", str(tmp_path))
    assert code == 1
    assert f"{tmp_path / 'node.pem'} {said}; renew with: kernel certificates renew {tmp_path}" in errors


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificates.create(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    code, _, errors = run(capsys, "create", str(tmp_path))
    assert code == 2 and "there is an authority in" in errors and "kernel certificates renew" in errors
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nowhere"], "nowhere/ca.pem can't be read (No such file or directory)"),
        (["renew", "nowhere"], "there is no authority in nowhere"),
        (["create", "new", "--name", "é"], "'é' is no name of a machine: expected one like head.example"),
        (["creat", "new"], "did you mean 'create'?"),
    ],
)
def test_refusals(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = run(capsys, *arguments)
    assert code == 2 and said in errors and errors.count("\n") == 1


def test_damaged_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificates.create(tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    (tmp_path / "bad" / "node.pem").write_text("noise")
    assert "node.pem is no certificate (PEM)" in run(capsys, "show", str(tmp_path / "bad"))[2]
    (tmp_path / "bad" / "ca.key").write_text("noise")
    assert "ca.key is no private key (PEM, not encrypted)" in run(capsys, "renew", str(tmp_path / "bad"))[2]


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_modules", [])
    monkeypatch.setitem(sys.modules, "cryptography", None)
    code, _, errors = run(capsys, "create", str(tmp_path))
    assert code == 2 and "pip install cryptography" in errors
