"""gRPC in a session: addresses and options, applications with a route and without, faults, shadows, taken ports."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from click.testing import CliRunner
from kernel_serve.cli.main import serve as commands
from kernel_serve.errors import ServeError
from kernel_serve.examples import words_rpc
from kernel_serve.testing import reflection
from kernel_serve.testing.grpc_world import SECONDS

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

SERVICE = "kernel_serve.examples.words_rpc:add_WordsServicer_to_server"


@serve.deployment(max_ongoing_requests=1, max_queued_requests=0)
class Words:
    """Answers with its name; some texts are commands."""

    def __init__(self, name: str, seen: str = "") -> None:
        self.name, self.seen = name, seen

    def Count(self, request: Any, context: Any) -> Any:
        if request.text == "die":
            os._exit(1)
        if request.text.startswith("wait for "):
            file = Path(request.text.removeprefix("wait for "))
            file.with_suffix(".begun").touch()
            wait_until(file.exists, SECONDS, "the file")
        if self.seen:
            metadata = dict(context.invocation_metadata())
            Path(self.seen).write_text(f"{request.text} {metadata['x-serve-shadow']} {metadata['request_id']}")
        return words_rpc.Counts(words=len(request.text.split()), letters=len(self.name))

    def __call__(self, request: Any) -> str:
        return self.name


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Serve whose proxy takes HTTP and gRPC. Both were said in a start of their own."""
    kernel.shutdown()
    with kernel.init(num_cpus=8, log_to_driver=False):
        serve.start(http_options={"port": 0, "access_log": False, "root_path": "/behind"})
        assert proxy().grpc_address == ""
        before = proxy().address
        serve.start(grpc_options={"port": 0, "grpc_servicer_functions": [SERVICE]})
        assert proxy().address == before
        yield
        serve.shutdown()


@pytest.fixture
def stub(session: None) -> Iterator[Any]:
    """Calls the service; at the end no application is left."""
    with grpc.insecure_channel(proxy().grpc_address) as channel:
        yield words_rpc.WordsStub(channel)
    for name in serve.status().applications:
        serve.delete(name)


def proxy() -> Any:
    """Return what is shown of the proxy that there is to be: one that goes may be there as well."""
    found: list[Any] = []

    def is_one() -> bool:
        found[:] = [each for each in serve.status().proxies.values() if each.status == "HEALTHY"]
        return len(found) == 1

    wait_until(is_one, SECONDS, "one healthy proxy")
    return found[0]


def name_length(stub: Any, application: str = "", text: str = "a b", **more: Any) -> int:
    """Return how long the name of the application is that answers."""
    metadata = [("application", application)] if application else []
    more = {"wait_for_ready": True, **more}  # proxies may just be replacing each other
    return int(stub.Count(words_rpc.Text(text=text), metadata=metadata, timeout=SECONDS, **more).letters)


def status_of(stub: Any, application: str = "", text: str = "a b") -> tuple[Any, str]:
    with pytest.raises(grpc.RpcError) as caught:
        name_length(stub, application, text)
    error: Any = caught.value
    return error.code(), error.details()


def test_an_application_without_a_route_is_reached_by_grpc_and_not_by_http(stub: Any) -> None:
    serve.run(Words.bind("1"), name="one", route_prefix=None)
    assert name_length(stub) == name_length(stub, "one") == 1
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"http://{proxy().address}/one")
    serve.run(Words.bind("22"), name="two", route_prefix=None)
    code, text = status_of(stub)
    assert code is grpc.StatusCode.NOT_FOUND and "give one of these in the metadata as 'application': one, two" in text
    serve.run(Words.bind("333"), name="three", route_prefix="/three")
    assert [name_length(stub, name) for name in ("", "one", "two", "three")] == [3, 1, 2, 3]
    serve.delete("one")
    code, text = status_of(stub, "one")
    assert code is grpc.StatusCode.NOT_FOUND and "there is no application 'one'" in text


def test_too_many_requests_are_resource_exhausted(stub: Any, tmp_path: Path) -> None:
    serve.run(Words.bind("1"), name="one", route_prefix=None)
    file = tmp_path / "go"
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(name_length, stub, "one", f"wait for {file}")
        wait_until(file.with_suffix(".begun").exists, SECONDS, "a call under way")
        assert status_of(stub, "one")[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        file.touch()
        assert waiting.result() == 1


def test_a_call_whose_replica_dies_is_unavailable_and_the_next_is_answered(stub: Any) -> None:
    application = Words.options(num_replicas=2, max_queued_requests=-1).bind("1")
    serve.run(application, name="one", route_prefix=None)
    code, text = status_of(stub, "one", "die")
    assert code is grpc.StatusCode.UNAVAILABLE and "it may or may not have been carried out (request " in text
    assert [name_length(stub, "one") for _ in range(10)] == [1] * 10


def test_a_shadow_gets_a_copy_of_a_call(stub: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    serve.run(Words.bind("1"), name="one", route_prefix="/one")
    serve.run(Words.bind("22", str(seen)), name="two", route_prefix=None)
    serve.set_traffic("one", {"one": 1}, shadow={"two": 1})
    call = stub.Count.with_call(
        words_rpc.Text(text="tell"), metadata=[("request_id", "id-7")], timeout=SECONDS, wait_for_ready=True
    )
    assert call[0].letters == 1
    wait_until(lambda: seen.exists() and seen.read_text() != "", SECONDS, "the copy")
    assert seen.read_text() == "tell 1 id-7"


def test_what_one_start_says_the_next_leaves_as_it_is(stub: Any) -> None:
    serve.run(Words.bind("1"), name="one", route_prefix="/one")
    before = proxy()
    serve.start(http_options={"port": 0, "access_log": False})
    assert (proxy().address, proxy().grpc_address) == (before.address, before.grpc_address)
    assert urlopen(f"http://{proxy().address}/one").read() == b"1"
    with grpc.insecure_channel(proxy().grpc_address) as channel:
        assert name_length(words_rpc.WordsStub(channel), "one") == 1
    serve.start()
    serve.start(proxy_location="HeadOnly")
    assert (proxy().address, proxy().grpc_address) == (before.address, before.grpc_address)


def test_a_service_may_be_in_a_directory_of_its_own(stub: Any, tmp_path: Path) -> None:
    module = "from kernel_serve.examples.words_rpc import add_WordsServicer_to_server"
    (tmp_path / "elsewhere_rpc.py").write_text(module)
    before, services = proxy(), {"grpc_servicer_functions": ["elsewhere_rpc:add_WordsServicer_to_server"]}
    with pytest.raises(ServeError, match="'elsewhere_rpc:add_WordsServicer_to_server' can't be imported .* app_dir"):
        serve.start(grpc_options={"port": 0, **services})
    serve.start(grpc_options={"port": 0, **services, "app_dir": str(tmp_path)})
    assert proxy().grpc_address == before.grpc_address
    serve.run(Words.bind("1"), name="one", route_prefix=None)
    assert name_length(stub, "one") == 1


@serve.deployment(num_replicas=2)
class Mortal:
    """Dies once, with the first call."""

    def __init__(self, died: str) -> None:
        self.died = Path(died)

    def Look(self, request: Any) -> Any:
        if not self.died.exists():
            self.died.touch()
            os._exit(1)
        return request


def test_a_call_that_may_be_repeated_is_answered_though_its_replica_dies(
    stub: Any, generated: Any, tmp_path: Path
) -> None:
    messages, services = generated
    options = {"grpc_servicer_functions": ["greeter_pb2_grpc:add_GreeterServicer_to_server"]}
    serve.start(grpc_options={"port": 0, **options, "app_dir": str(Path(messages.__file__).parent)})
    died = tmp_path / "died"
    serve.run(Mortal.bind(str(died)), name="mortal", route_prefix=None)
    with grpc.insecure_channel(proxy().grpc_address) as channel:
        assert (
            services.GreeterStub(channel).Look(messages.Word(text="x"), timeout=SECONDS, wait_for_ready=True).text
            == "x"
        )
    assert died.exists()


def test_the_commands_show_the_address(stub: Any) -> None:
    serve.run(Words.bind("1"), name="one", route_prefix=None)
    shown = CliRunner().invoke(commands, ["status"]).output
    assert f"gRPC calls go to {proxy().grpc_address}\n" in shown
    assert "one  RUNNING  no route: only handles and gRPC reach it" in shown
    assert f"gRPC calls go to {proxy().grpc_address}\n" in CliRunner().invoke(commands, ["start"]).output


def test_both_over_tls_and_a_client_that_learns_everything_from_the_server(
    stub: Any, certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve.run(Words.bind("1"), name="one", route_prefix="/one")
    before = proxy()
    tls = {"ssl_certfile": str(certificates / "server.pem"), "ssl_keyfile": str(certificates / "server.key")}
    services = {"grpc_servicer_functions": [SERVICE]}
    serve.start(None, {"port": 0, "access_log": False, **tls}, {"port": 0, **services, **tls})
    shown = CliRunner().invoke(commands, ["status"]).output
    assert f"Requests go to https://{before.address}\n" in shown
    assert f"gRPC calls go to {before.grpc_address} (TLS)\n" in shown
    authority = str(certificates / "server.pem")
    trusting = ssl.create_default_context(cafile=authority)
    assert urlopen(f"https://{before.address}/one", context=trusting).read() == b"1"

    def ask(*words: str, code: int = 0) -> str:
        assert reflection.main([before.grpc_address, "--cacert", authority, *words]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    name = next(each for each in ask("list").split() if each.endswith("Words"))
    assert f"service {name} {{" in ask("describe", name)
    assert ask("-H", "application=one", "call", f"{name}/Count", '{"text": "a b"}') == '{"words": 2, "letters": 1}\n'
    assert ask("call", f"{name}/Nothing", code=1) == f"the server has no '{name}/Nothing'\n"
    assert ask("call", f"{name}/Split", '{"text": "a"}', code=1).startswith(
        "UNIMPLEMENTED: deployment Words has no met"
    )
    serve.start(None, {"port": 0, "access_log": False}, {"port": 0, **services})
    assert proxy().address == before.address


@pytest.mark.parametrize(("option", "what"), [("http_options", "listen"), ("grpc_options", "take gRPC")])
def test_a_port_that_is_taken_is_one_clear_error_and_changes_nothing(session: None, option: str, what: str) -> None:
    before = proxy()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        services = {"grpc_servicer_functions": [SERVICE]} if option == "grpc_options" else {}
        with pytest.raises(ServeError) as caught:
            serve.start(**{option: {"port": port, **services}})  # type: ignore[arg-type]
        text = str(caught.value)
        assert text.startswith(f"the proxy can't {what} on 127.0.0.1:{port}: Address already in use, by process ")
        assert f"process {os.getpid()} (" in text and text.endswith("or 0 for any that is free") and "\n" not in text
        flags = ["--http-port"] if option == "http_options" else ["--grpc-servicer-functions", SERVICE, "--grpc-port"]
        said = CliRunner().invoke(commands, ["start", *flags, str(port)])
        assert said.exit_code == 1 and said.output == f"Error: {text}\n"
    wait_until(lambda: len(serve.status().proxies) == 1, SECONDS, "the proxy of before alone")
    assert proxy() == before
