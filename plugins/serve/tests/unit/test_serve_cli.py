"""The commands: what they ask of Serve, what they print, and what they refuse. Serve is a stand-in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kernel_serve.api import run as api
from kernel_serve.api import run_forever
from kernel_serve.cli import deploying, managing, run
from kernel_serve.cli.main import serve
from kernel_serve.cli.reload import Watcher, once
from kernel_serve.config.reading import read
from kernel_serve.errors import DeployFailedError, NotServingError
from kernel_serve.users_code import forget_modules
from kernel_serve.values import ApplicationSpec

import kernel

SHOP = """
from kernel_serve.api.deployment import deployment


@deployment
class Model:
    def __init__(self, size="small"):
        self.size = size


app = Model.bind()


def build(args):
    return Model.bind(**args)
"""
STATUS: dict[str, Any] = {
    "applications": {
        "shop": {
            "status": "RUNNING",
            "message": "",
            "route_prefix": "/shop",
            "deployments": {
                "Model": {
                    "status": "HEALTHY",
                    "replica_states": {"RUNNING": 2},
                    "autoscaling_decision": "2.0 requests wait: 2 are right",
                },
            },
        },
        "bad": {
            "status": "DEPLOY_FAILED",
            "message": "it failed 3 times\nTraceback: of the user",
            "route_prefix": None,
            "deployments": {"Front": {"status": "DEPLOY_FAILED", "replica_states": {}, "message": "no luck"}},
        },
    },
    "proxies": {"a": {"address": "127.0.0.1:8000"}},
    "endpoints": [
        {"name": "shop", "route_prefix": "/shop", "targets": {"shop#Model": 1.0}},
        {"name": "split", "route_prefix": "/s", "targets": {"shop#Model": 0.9, "bad#Front": 0.1}},
    ],
}


class Serve:
    """Stands in for Serve and the session, and remembers what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.specs: list[ApplicationSpec] = []
        self.kept: dict[str, Any] | None = None
        self.found: dict[str, Any] | None = STATUS
        self.started_session = False
        for name in ("start", "delete", "shutdown", "wait_until_running"):
            monkeypatch.setattr(api, name, self._remember(name))
        monkeypatch.setattr(api, "deploy", self._deploy)
        monkeypatch.setattr(api, "status", self._status)
        for module in (deploying, managing):
            monkeypatch.setattr(module, "join", self._remember("join"))
        monkeypatch.setattr(run, "join_or_start", lambda address: self.started_session)
        monkeypatch.setattr("kernel_serve.config.deploying.kept", lambda: self.kept)
        monkeypatch.setattr("kernel_serve.config.deploying.keep", self._keep)
        monkeypatch.setattr("kernel_serve.rest.server.stop_rest", self._remember("stop_rest"))
        monkeypatch.setattr("kernel_serve.config.deploying.deploy_config", self._deploy_config)

    def _remember(self, name: str) -> Any:
        return lambda *arguments, **options: self.asked.append((name, (*arguments, *options.values())))

    def _deploy(self, specs: Sequence[ApplicationSpec]) -> None:
        self.specs += specs

    def _deploy_config(self, config: Any, build: Any, directory: str) -> list[str]:
        self.specs += build(config)
        self.kept = config.data
        return [each.name for each in config.applications]

    def _status(self) -> dict[str, Any]:
        if self.found is None:
            raise NotServingError("Serve does not run in this session")
        return self.found

    def _keep(self, data: dict[str, Any] | None) -> None:
        self.kept = data

    def names(self) -> list[str]:
        """Return what was asked for, without arguments."""
        return [name for name, _ in self.asked if name != "join"]


@pytest.fixture(scope="module", autouse=True)
def session_that_builds() -> Iterator[None]:
    """End the session that the first command begins which builds an application."""
    yield
    kernel.shutdown()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    (tmp_path / "tiny_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Serve(monkeypatch)
    forget_modules(str(tmp_path))


def invoke(*arguments: str, code: int = 0, input: str | None = None) -> str:
    """Run a command, and return what it printed."""
    result = CliRunner().invoke(serve, arguments, input=input)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    assert "Traceback (most" not in result.output
    return result.output


def test_an_application_runs_with_its_arguments(stand_in: Serve) -> None:
    text = invoke(
        "run", "tiny_shop:build", "size=large", "--non-blocking", "--name", "shop", "--route-prefix", "/shop",
        "--port", "8001",
    )  # fmt: skip
    (spec,) = stand_in.specs
    assert (spec.name, spec.route_prefix, spec.ingress) == ("shop", "/shop", "Model")
    assert stand_in.asked == [("start", ({"port": 8001},)), ("wait_until_running", ("shop",))]
    assert "shop  RUNNING  /shop" in text and "bad" not in text
    assert stand_in.kept is None, "only files are kept"


def test_arguments_are_read_as_yaml() -> None:
    assert run.parsed_arguments(["a=3", "b=true", "c=text", "d=[1, 2]", "e=x=y", "f="]) == {
        "a": 3, "b": True, "c": "text", "d": [1, 2], "e": "x=y", "f": None,
    }  # fmt: skip


def test_run_stays_until_it_is_interrupted(stand_in: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_forever.time, "sleep", interrupted)
    assert "Ctrl-C ends it." in invoke("run", "tiny_shop:app", "--name", "shop")
    assert stand_in.names() == ["start", "wait_until_running", "delete"]
    stand_in.started_session = True
    invoke("run", "tiny_shop:app", "--name", "shop")
    assert stand_in.names()[3:] == ["start", "wait_until_running", "shutdown"]


def test_run_takes_a_file(stand_in: Serve, tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text("applications: [{name: shop, import_path: 'tiny_shop:app'}]")
    invoke("run", "serve.yaml", "--non-blocking")
    assert stand_in.kept == {"applications": [{"name": "shop", "route_prefix": "/", "import_path": "tiny_shop:app"}]}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "tiny_shop:nothing"], 2, "Error: module tiny_shop has no 'nothing' (for tiny_shop:nothing)"),
        (["run", "tiny_shop:app", "size"], 2, "arguments of an application are NAME=VALUE, not 'size'"),
        (["run", "missing.yaml"], 2, "missing.yaml can't be read: No such file"),
        (["run", "serve.yaml", "a=1"], 2, "NAME=VALUE is for an IMPORT_PATH; a file has `args`"),
        (["run", "tiny_shop:app", "--reload", "--non-blocking"], 2, "--reload stays"),
        (["rum", "tiny_shop:app"], 2, "there is no command 'serve rum', did you mean 'run'?"),
        (["status", "--name", "shap"], 2, "there is no application 'shap'; did you mean 'shop'?"),
        (["config"], 2, "nothing was deployed from a file in this session"),
        (["build", "tiny_shop:Model"], 2, "is a deployment that is not bound"),
        (["build", "tiny_shop:app", "-o", "no/where.yaml"], 2, "no/where.yaml can't be written: No such file"),
    ],
)
def test_mistakes_are_answered(stand_in: Serve, arguments: list[str], code: int, message: str) -> None:
    assert message in invoke(*arguments, code=code)


def test_a_traceback_of_users_code_keeps_its_lines(stand_in: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, timeout: float | None = None) -> None:
        raise DeployFailedError("application shop is DEPLOY_FAILED:\n  File shop.py, line 3\nValueError: broken")

    monkeypatch.setattr(api, "wait_until_running", fail)
    text = invoke("run", "tiny_shop:app", code=1)
    assert text == "Error: application shop is DEPLOY_FAILED:\n  File shop.py, line 3\nValueError: broken\n"


def test_run_without_blocking_needs_a_session_that_stays(stand_in: Serve) -> None:
    stand_in.started_session = True
    assert "--non-blocking needs a session that stays" in invoke("run", "tiny_shop:app", "--non-blocking", code=2)
    assert not stand_in.specs


def test_deploying_a_file_shows_what_is_different(stand_in: Serve, tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("applications: [{name: shop, import_path: 'tiny_shop:app'}]")
    assert invoke("deploy", str(path)) == "nothing was deployed from a file before\nshop takes requests\n"
    path.write_text(
        "applications: [{name: shop, import_path: 'tiny_shop:app', deployments: [{name: Model, num_replicas: 3}]}]"
    )
    shown = "+ applications[shop].deployments\n"
    assert invoke("deploy", str(path), "--dry-run") == shown
    assert len(stand_in.specs) == 1
    assert invoke("deploy", str(path), "--no-wait").startswith(shown + "accepted: shop;")
    assert stand_in.specs[1].deployments[0].settings.num_replicas == 3
    assert stand_in.specs[1].deployments[0].version == stand_in.specs[0].deployments[0].version
    assert invoke("deploy", str(path)).startswith("nothing is different in the file; changed code is deployed\n")
    assert "num_replicas: 3" in invoke("config", "--name", "shop")
    assert "there is no" not in invoke("config")
    assert "the configuration has no application 'x'; there are: shop" in invoke("config", "--name", "x", code=2)


def test_the_status_says_what_is_wrong(stand_in: Serve) -> None:
    assert invoke("status", code=1) == (
        "shop  RUNNING  /shop\n"
        "  Model  HEALTHY  2 RUNNING\n"
        "  Model: 2.0 requests wait: 2 are right\n"
        "bad  DEPLOY_FAILED  no route: only handles reach it\n"
        "  it failed 3 times\n"
        "    Traceback: of the user\n"
        "  Front  DEPLOY_FAILED  none\n"
        "  Front: no luck\n"
        "ENDPOINT  PREFIX  TARGETS\n"
        "split     /s      shop#Model 0.9, bad#Front 0.1\n"
        "Requests go to http://127.0.0.1:8000\n"
    )
    assert invoke("status", "--name", "shop").startswith("shop  RUNNING")
    assert '"route_prefix": "/shop"' in invoke("status", "--name", "shop", "--json")
    stand_in.found = {"applications": {}}
    assert invoke("status") == "No application is deployed.\n"


def test_starting_says_where(stand_in: Serve) -> None:
    assert invoke("start", "--http-port", "8000", "--proxy-location", "HeadOnly") == (
        "Serve runs; requests go to http://127.0.0.1:8000\n"
    )
    assert ("start", ("HeadOnly", {"port": 8000}, None)) in stand_in.asked


def test_ending_asks_first(stand_in: Serve) -> None:
    stand_in.kept = {"applications": []}
    assert "End Serve with shop, bad? [y/N]" in invoke("shutdown", code=1, input="n\n")
    assert not stand_in.names()
    invoke("shutdown", input="y\n")
    assert stand_in.names() == ["stop_rest", "shutdown"] and stand_in.kept is None
    stand_in.found = None
    assert invoke("shutdown", "-y") == "Serve does not run\n"
    assert stand_in.names()[2:] == ["stop_rest"]


def test_building_writes_a_file_that_can_be_read(stand_in: Serve, tmp_path: Path) -> None:
    assert invoke("build", "tiny_shop:app", "-o", "serve.yaml") == "wrote serve.yaml\n"
    text = (tmp_path / "serve.yaml").read_text()
    assert [each.name for each in read(text).applications[0].deployments] == ["Model"]
    two = read(invoke("build", "tiny_shop:app", "tiny_shop:app"))
    assert [(each.name, each.route_prefix) for each in two.applications] == [("app1", "/app1"), ("app2", "/app2")]


def test_changes_of_sources_are_noticed(tmp_path: Path) -> None:
    for name in ("one.py", "two.py", "three.txt", "node_modules/four.py", ".hidden/five.py", "deep/six.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    watcher = Watcher(str(tmp_path))
    assert watcher.changed() == []
    for name in ("one.py", "three.txt", "node_modules/four.py", ".hidden/five.py", "deep/six.py"):
        (tmp_path / name).write_text("a = 1 + 1\n")
    (tmp_path / "two.py").unlink()
    (tmp_path / "new.py").write_text("")
    changed = [str(Path(name).relative_to(tmp_path)) for name in watcher.changed()]
    assert changed == ["deep/six.py", "new.py", "one.py", "two.py"]
    assert watcher.changed() == []


def test_a_file_in_the_directory_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("serve.yaml").write_text("")
    watcher = Watcher(str(tmp_path), ("serve.yaml",))
    Path("serve.yaml").write_text("applications: []\n")
    assert watcher.changed() == [str(tmp_path / "serve.yaml")]


def test_a_change_that_fails_is_told_and_is_no_end() -> None:
    said: list[str] = []

    def fail() -> None:
        exec(compile("1 // 0", "shop.py", "exec"))

    once(["/a/shop.py"], fail, said.append)
    assert said[0] == "shop.py changed"
    assert "ZeroDivisionError" in said[1] and said[1].endswith("the old version goes on until the next change")
    once(["/a/shop.py"], lambda: None, said.append)
    assert said[3].startswith("runs the new version after 0.")


def test_a_source_that_changes_while_the_application_starts_is_deployed_again(
    stand_in: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed: list[str] = []

    def watch(watcher: Watcher, redeploy: Callable[[], None], tell: Callable[[str], None]) -> None:
        changed.extend(watcher.changed())
        redeploy()
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "wait_until_running", lambda name: (tmp_path / "tiny_shop.py").write_text(SHOP + "\n"))
    monkeypatch.setattr(run, "watch", watch)
    assert "changes of sources are deployed" in invoke("run", "tiny_shop:app", "--reload")
    assert [Path(name).name for name in changed] == ["tiny_shop.py"] and len(stand_in.specs) == 2
