"""A program that can't join a cluster from outside: each reason is one clear error, soon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import kernel
from kernel.exceptions import KernelError, OptionError, SessionEndedError
from kernel.testing import Cluster
from kernel.testing.leaks import no_leaks
from kernel.testing.session import temporary_root
from kernel_processes.cli import certificates
from kernel_processes.transport.authentication import make_token, write_token
from kernel_spec.tls_files import TlsFiles

SECONDS = 120.0
SOON = 60.0
"""No reason takes longer, on a busy machine too."""
REACHED = (
    "; `kernel status` on its machine says whether it runs and where it listens (to that machine alone, unless it was "
    "started with --node-ip-address)"
)


@pytest.fixture(scope="module")
def cluster():
    """A head without TLS, and a node."""
    kernel.shutdown()
    with Cluster(num_cpus=1) as cluster:
        cluster.add_node()
        yield cluster


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Directories of certificates of two authorities."""
    made = [tmp_path_factory.mktemp("tls") / name for name in ("ours", "theirs")]
    for one in made:
        certificates.create(one)
    return list(map(str, made))


@pytest.fixture
def root():
    with temporary_root() as root, no_leaks(root):
        yield root


@pytest.fixture
def token_file(tmp_path):
    """A token of another cluster."""
    write_token(tmp_path / "token", make_token())
    return str(tmp_path / "token")


def refused(root, address, **options):
    """Return what `kernel.init` says."""
    begun = time.monotonic()
    with pytest.raises(KernelError) as caught:
        kernel.init(address, temp_dir=root, **options)
    assert time.monotonic() - begun < SOON
    assert not kernel.is_initialized()
    return caught


def test_nobody_listens(root, token_file):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        caught = refused(root, f"kernel://{place}", token_file=token_file)
    assert caught.type is SessionEndedError
    assert str(caught.value) == f"no way to the cluster at {place}: it can't be reached: Connection refused{REACHED}"


def test_a_host_that_there_is_not(root, token_file):
    caught = refused(root, "kernel://nowhere.invalid:6380", token_file=token_file)
    assert "no way to the cluster at nowhere.invalid:6380: " in str(caught.value)
    assert "the name 'nowhere.invalid' can't be looked up" in str(caught.value) or "there was no answer" in str(
        caught.value
    )


def test_a_machine_that_does_not_answer(root, token_file):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        fillers = [socket.socket() for _ in range(8)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        caught = refused(root, f"kernel://{place}", token_file=token_file)
        for filler in fillers:
            filler.close()
    assert str(caught.value) == f"no way to the cluster at {place}: there was no answer within 5 s{REACHED}"


def test_somebody_who_accepts_and_says_nothing(root, token_file):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = f"127.0.0.1:{mute.getsockname()[1]}"
        caught = refused(root, f"kernel://{place}", token_file=token_file)
    assert str(caught.value) == f"no way to the cluster at {place}: it did not answer within 10 s{REACHED}"


def test_somebody_who_speaks_another_protocol(root, token_file):
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"

        def serve():
            with suppress(OSError):
                while True:
                    sock, _ = other.accept()
                    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        caught = refused(root, f"kernel://{place}", token_file=token_file)
        other.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert str(caught.value) == f"no way to the cluster at {place}: the peer does not speak this protocol"


def test_the_token_of_another_cluster(root, cluster, token_file):
    caught = refused(root, cluster.address, token_file=token_file)
    assert str(caught.value) == (
        f"no way to the cluster at {cluster.head.gateway}: it has another session token; `kernel token` on its machine "
        "shows the one that is needed (token_file=... of kernel.init or KERNEL_TOKEN)"
    )


def test_no_token(root, cluster, monkeypatch):
    monkeypatch.delenv("KERNEL_TOKEN", raising=False)
    monkeypatch.setenv("KERNEL_TMPDIR", root)
    caught = refused(root, cluster.address)
    assert caught.type is OptionError
    assert str(caught.value) == (
        f"the token of the cluster at {cluster.head.gateway} is not known here: `kernel token` on its head's machine "
        "shows it; give it in a file with kernel.init(token_file=...), or in the environment as KERNEL_TOKEN"
    )


def test_a_token_from_the_environment(root, cluster, monkeypatch):
    monkeypatch.setenv("KERNEL_TOKEN", cluster._token.hex())
    with kernel.init(cluster.address, temp_dir=root):
        assert len(kernel.nodes()) == 2


def test_a_token_of_a_session_on_the_same_machine(root, cluster, monkeypatch):
    monkeypatch.delenv("KERNEL_TOKEN", raising=False)
    monkeypatch.setenv("KERNEL_TMPDIR", cluster.root)
    with kernel.init(cluster.address, temp_dir=root):
        assert len(kernel.nodes()) == 2


def test_a_token_that_is_none_or_that_all_can_read(root, cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNEL_TOKEN", "secret")
    caught = refused(root, cluster.address)
    assert str(caught.value) == (
        "what KERNEL_TOKEN holds is no token: a token has 64 hexadecimal digits; `kernel token` shows one"
    )
    file = tmp_path / "open"
    file.write_text("ab" * 32)
    file.chmod(0o644)
    caught = refused(root, cluster.address, token_file=file)
    assert str(caught.value) == f"the token file {file} can be read by others; run: chmod 600 {file}"


def test_the_port_of_a_node_without_the_head(root, cluster):
    place = cluster.nodes[1].gateway
    caught = refused(root, f"kernel://{place}", token_file=cluster.token_file)
    assert str(caught.value) == (
        f"no way to the cluster at {place}: nobody of that name is there; a process that was has ended; a node without "
        "the head listens there: `kernel status` on any node shows where the head is"
    )


def test_tls_here_and_none_there(root, cluster, authorities):
    caught = refused(root, cluster.address, token_file=cluster.token_file, tls=authorities[0])
    assert str(caught.value) == (
        f"no way to the cluster at {cluster.head.gateway}: its gateway speaks no TLS: switch TLS on there too, or off "
        "here (tls=DIR of kernel.init or KERNEL_TLS, on every machine of the cluster or on none)"
    )


def test_tls_there_and_none_or_another_here(root, authorities):
    ours, theirs = authorities
    with Cluster(num_cpus=1, tls=TlsFiles.of_directory(ours)) as secured:
        place = secured.head.gateway
        caught = refused(root, secured.address, token_file=secured.token_file)
        assert str(caught.value) == (
            f"no way to the cluster at {place}: its gateway speaks TLS only: switch TLS on here too, with a "
            "certificate of the same authority (tls=DIR of kernel.init or KERNEL_TLS, on every machine of the cluster "
            "or on none)"
        )
        caught = refused(root, secured.address, token_file=secured.token_file, tls=theirs)
        assert "of another authority" in str(caught.value)
        with kernel.init(secured.address, token_file=secured.token_file, tls=ours, temp_dir=root):
            assert len(kernel.nodes()) == 1


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("kernel://", "'' is no place to connect to: expected HOST:PORT"),
        ("kernel://head.example", "'head.example' is no place to connect to: expected HOST:PORT"),
        ("kernel://head.example:99999", "with a port of at most 65535"),
    ],
)
def test_an_address_that_is_none(root, address, complaint, token_file):
    caught = refused(root, address, token_file=token_file)
    assert caught.type is OptionError
    assert complaint in str(caught.value)


def test_what_can_not_be_chosen(root, cluster):
    for option in ({"num_cpus": 2}, {"scheduler": "fair"}, {"labels": {"a": "b"}}):
        caught = refused(root, cluster.address, token_file=cluster.token_file, **option)
        assert f"{next(iter(option))} can be chosen only where the session is started" in str(caught.value)
    with pytest.raises(OptionError, match="token_file and tls are for a cluster that is joined from outside"):
        kernel.init(token_file=cluster.token_file)
    with pytest.raises(OptionError, match="token_file and tls are for a cluster that is joined from outside"):
        kernel.init("auto", tls="here")


def test_its_store_is_its_own_to_choose(root, cluster):
    options = {"object_store_memory": 8 << 20, "object_store_directory": root, "spill_directory": root}
    with kernel.init(cluster.address, token_file=cluster.token_file, temp_dir=root, **options):
        assert kernel.get(kernel.put(bytes(1 << 20))) == bytes(1 << 20)


OTHER_VERSION = """
import sys
import kernel_spec.version
kernel_spec.version.__version__ = "1999.1.0"
import kernel_processes.system.children, kernel_processes.system.processes

command_of = kernel_processes.system.processes.command_of
def other(module, *arguments):
    command = command_of(module, *arguments)
    command[2] = "import kernel_spec.version; kernel_spec.version.__version__ = '1999.1.0'; " + command[2]
    return command
kernel_processes.system.children.command_of = other

import kernel
try:
    kernel.init(sys.argv[1], token_file=sys.argv[2], temp_dir=sys.argv[3])
except kernel.exceptions.SessionEndedError as error:
    print(error)
"""


def test_another_version(root, cluster):
    arguments = [cluster.address, cluster.token_file, root]
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", OTHER_VERSION, *arguments],
        env={**os.environ, **paths}, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    host, version = socket.gethostname(), kernel.__version__
    assert done.stdout == (
        f"no way to the cluster at {cluster.head.gateway}: {host} has kernel 1999.1.0, the head {version}: install the "
        "same on both\n"
    ), done.stderr


def test_a_node_of_the_cluster_on_this_machine_is_still_asked_for_by_its_place(root, cluster, monkeypatch):
    monkeypatch.setenv("KERNEL_TMPDIR", root)
    with pytest.raises(SessionEndedError) as caught:
        kernel.init("10.1.2.3:6380")
    assert str(caught.value) == (
        "no node of the cluster at 10.1.2.3:6380 runs on this machine, for this user; start one with `kernel start "
        '--address 10.1.2.3:6380`, or join from outside with init(address="kernel://10.1.2.3:6380")'
    )
