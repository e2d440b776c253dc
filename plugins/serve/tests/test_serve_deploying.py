"""Configurations that really run: by the command line, by the REST API, and while their sources change."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kernel_serve.api import run as api
from kernel_serve.cli.main import serve
from kernel_serve.config.deploying import kept
from kernel_serve.errors import ServeError
from kernel_serve.rest.server import start_rest, stop_rest
from kernel_serve.rest.token import session_token
from kernel_serve.users_code import forget_modules

import kernel
from kernel.testing.roots import temporary_root

SECONDS = 120.0
SHOP = """
import os

import colours
from kernel_serve.api.deployment import deployment


@deployment
class Model:
    def __init__(self, size):
        self.size, self.limit = size, 0

    def reconfigure(self, config):
        self.limit = config["limit"]

    async def __call__(self, request):
        return {"size": self.size, "limit": self.limit, "colour": colours.NAME, "pid": os.getpid(), **ENVIRONMENT}


ENVIRONMENT = {"mode": os.environ.get("MODE", "")}


def build(args):
    return Model.bind(args["size"])
"""


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """A session with proxies on a free port."""
    kernel.shutdown()
    with kernel.init(num_cpus=4, log_to_driver=False):
        api.start(http_options={"port": 0})
        yield
        stop_rest()
        api.shutdown()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an application's code, where the commands are given."""
    (tmp_path / "far_shop.py").write_text(SHOP)
    (tmp_path / "colours.py").write_text("NAME = 'red'\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    forget_modules(str(tmp_path))


def config(**options: Any) -> str:
    """Return a file with one application, with options of its deployment."""
    return json.dumps(
        {
            "applications": [
                {
                    "name": "shop",
                    "route_prefix": "/shop",
                    "import_path": "far_shop:build",
                    "args": {"size": "large"},
                    "deployments": [{"name": "Model", **options}],
                }
            ]
        }
    )


def command(*arguments: str) -> str:
    """Run a command in the session, and return what it printed."""
    result = CliRunner().invoke(serve, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def address() -> str:
    """Return where the proxy listens."""
    (proxy,) = api.status()["proxies"].values()
    return str(proxy["address"])


def get(path: str, where: str = "") -> Any:
    """Return what a path answers."""
    with urllib.request.urlopen(f"http://{where or address()}{path}", timeout=SECONDS) as answer:
        return json.loads(answer.read())


def eventually(question: Callable[[], Any], expected: Any) -> None:
    """Wait until the answer is the expected one."""
    deadline = time.monotonic() + SECONDS
    while (answer := question()) != expected:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


@pytest.mark.usefixtures("session")
def test_a_file_is_deployed_changed_and_taken_away(folder: Path) -> None:
    path = folder / "serve.yaml"
    path.write_text(config(user_config={"limit": 1}))
    assert command("deploy", str(path)).endswith("shop takes requests\n")
    first = get("/shop")
    assert (first["size"], first["limit"], first["colour"]) == ("large", 1, "red")

    path.write_text(config(user_config={"limit": 2}))
    command("deploy", str(path))
    eventually(lambda: get("/shop")["limit"], 2)
    assert get("/shop")["pid"] == first["pid"], "a change of user_config alone replaces no replica"

    (folder / "colours.py").write_text("NAME = 'light blue'\n")
    forget_modules(str(folder))
    assert "nothing is different in the file" in command("deploy", str(path))
    eventually(lambda: get("/shop")["colour"], "light blue")
    assert get("/shop")["pid"] != first["pid"]

    path.write_text(json.dumps({"applications": []}))
    command("deploy", str(path))
    eventually(lambda: list(api.status()["applications"]), [])


@pytest.mark.usefixtures("session")
def test_an_application_that_can_not_be_imported_changes_nothing(folder: Path) -> None:
    path = folder / "serve.yaml"
    path.write_text(config())
    command("deploy", str(path))
    (folder / "colours.py").write_text("1 // 0\n")
    forget_modules(str(folder))
    result = CliRunner().invoke(serve, ["deploy", str(path)])
    assert result.exit_code == 1 and "far_shop:build can't be imported:\nTraceback" in result.output
    assert 'colours.py", line 1, in <module>' in result.output and "kernel_serve" not in result.output
    assert get("/shop")["colour"] == "red"
    api.delete("shop")


def ask(url: str, method: str = "GET", body: str = "", token: str | None = None) -> tuple[int, Any]:
    """Send a request to the REST API; return the status and the answer."""
    headers = {"Authorization": f"Bearer {session_token() if token is None else token}"}
    request = urllib.request.Request(url, body.encode() if body else None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.usefixtures("session")
def test_options_of_proxies_that_can_not_be_are_told_in_a_line_and_change_nothing() -> None:
    before = address()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"^the proxy can't listen on 127.0.0.1:{port}: Address already in use"):
            api.start(http_options={"port": port})
    eventually(lambda: [each["address"] for each in api.status()["proxies"].values()], [before])
    api.start("everynode")  # type: ignore[arg-type]
    assert address() == before, "the port is as it was said before"


@pytest.mark.usefixtures("session")
def test_the_rest_api_deploys_what_travels(folder: Path) -> None:
    url = f"http://{start_rest(port=0)}/api/serve/applications/"
    assert start_rest(port=0) in url, "it runs once"
    assert ask(url, token="0" * 64)[0] == 401
    given = json.loads(config(num_replicas=1))
    status, answer = ask(url, "PUT", json.dumps(given))
    assert status == 400 and "there is no module 'far_shop'" in answer["error"]

    environment = {"working_dir": str(folder), "env_vars": {"MODE": "fast"}}
    given["applications"][0]["runtime_env"] = environment
    given["endpoints"] = [{"name": "side", "prefix": "/side", "targets": [{"application": "shop"}]}]
    assert ask(url, "PUT", json.dumps(given)) == (200, {"applications": ["shop"]})
    api.wait_until_running("shop", SECONDS)
    eventually(lambda: get("/side")["mode"], "fast")
    _, shown = ask(url)
    assert shown["applications"]["shop"]["status"] == "RUNNING"
    assert shown["applications"]["shop"]["deployed_app_config"]["runtime_env"] == environment
    assert kept() == shown["config"]
    assert ask(url, "PUT", json.dumps({"applications": []})) == (200, {"applications": []})
    eventually(lambda: list(api.status()["applications"]), [])
    assert "side" not in [each["name"] for each in api.status()["endpoints"]]


@contextmanager
def running(folder: Path, output: Path, *target: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `serve run` in a session of its own."""
    code = "from kernel_serve.cli.main import main; main()"
    arguments = [sys.executable, "-u", "-c", code, "run", *target, "--port", "0"]
    with temporary_root() as root, open(output, "w") as log:
        environment = {**os.environ, "KERNEL_TMPDIR": root, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop("KERNEL_ADDRESS", None)
        process = subprocess.Popen(arguments, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


SLOW = """
import asyncio

from kernel_serve.api.deployment import deployment


@deployment
async def slow(request):
    await asyncio.sleep(1)
    return "done"


app = slow.bind()
"""


def test_sigterm_ends_run_when_requests_are_answered(folder: Path) -> None:
    (folder / "far_slow.py").write_text(SLOW)
    output = folder / "run.log"
    with running(folder, output, "far_slow:app") as process:
        eventually(lambda: "Ctrl-C ends it" in output.read_text() or process.poll() is not None, True)
        found = re.search(r"http://(\S+)", output.read_text())
        assert found, output.read_text()
        with socket.create_connection(found[1].split(":")) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")
            metrics = f"http://{found[1]}/-/metrics"
            begun = 'serve_deployment_ongoing_requests{application="default",deployment="slow"'
            eventually(lambda: begun in urllib.request.urlopen(metrics).read().decode(), True)
            process.send_signal(signal.SIGTERM)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"done")
        assert process.wait(SECONDS) == 0, output.read_text()


def test_changed_sources_are_deployed_and_broken_ones_are_not(folder: Path) -> None:
    output = folder / "run.log"
    with running(folder, output, "far_shop:build", "size=3", "--reload") as process:
        said = output.read_text
        eventually(lambda: "changes of sources are deployed" in said() or process.poll() is not None, True)
        found = re.search(r"http://(\S+)", said())
        assert found, said()
        assert get("/", found[1])["colour"] == "red"
        (folder / "colours.py").write_text("NAME = 'green!'\n")
        eventually(lambda: get("/", found[1])["colour"], "green!")
        (folder / "colours.py").write_text("NAME = \n")
        eventually(lambda: "SyntaxError" in said(), True)
        assert get("/", found[1])["colour"] == "green!"
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0, said()
