"""Logging in, with TLS and without, and that no secret is ever shown."""

from __future__ import annotations

import logging
import socket
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_metadata_redis import plugin
from kernel_metadata_redis.address import Address

from kernel.testing.programs import need
from kernel_spec.errors import MetadataError

SECRET = "s3cr/t#p@ss:w?rd"
QUOTED = "s3cr%2Ft%23p%40ss%3Aw%3Frd"
Starter = Callable[..., Any]


def story_of(url: str, **options: Any) -> str:
    """Return all that a failure to open tells anybody, with its causes."""
    with pytest.raises(MetadataError) as caught:
        plugin.open_store("/session", url=url, **{"patience_seconds": 0.1, **options})
    return "".join(traceback.format_exception(caught.value))


def test_the_password_opens(start_redis: Starter, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = start_redis("--requirepass", SECRET)
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    with caplog.at_level(logging.DEBUG):
        for options in (
            {"url": f"unix://:{QUOTED}@{server.socket}"},
            {"url": f"unix://{server.socket}?password={QUOTED}"},
            {"url": server.url, "password_file": str(file)},
            {"url": f"unix://default@{server.socket}", "password_file": str(file)},
        ):
            store: Any = plugin.open_store("/session", **options)
            store.put("table", b"key", b"value")
            assert SECRET not in repr(vars(store)) + repr(vars(store._link)) + repr(store._link._client)
            store.close()
    assert SECRET not in caplog.text and QUOTED not in caplog.text
    assert SECRET not in Path(f"/proc/{server.process.pid}/environ").read_text()


@pytest.mark.parametrize("login", ["", ":wrong-secret@", "nobody:wrong-secret@"])
def test_a_wrong_login_is_refused_without_a_word_of_it(start_redis: Starter, login: str) -> None:
    server = start_redis("--requirepass", SECRET)
    story = story_of(f"unix://{login}{server.socket}")
    assert f"the Redis at {server.url} refused the login" in story and "password_file" in story
    assert "wrong-secret" not in story and SECRET not in story


def test_a_password_that_changes_is_read_anew(start_redis: Starter, tmp_path: Path) -> None:
    server = start_redis("--requirepass", "first")
    file = tmp_path / "password"
    file.write_text("first")
    store = plugin.open_store("/session", url=server.url, password_file=str(file))
    server.kill()
    server.settings[-1] = "second"
    file.write_text("second")
    server.start()
    store.put("table", b"key", b"value")
    file.write_text("third")
    server.kill()
    server.start()
    with pytest.raises(MetadataError, match="refused the login"):
        store.get("table", b"key")
    store.close()


def test_a_user_who_may_not_do_that_is_told(start_redis: Starter) -> None:
    server = start_redis("--user", "head", "on", ">secret", "~other:*", "+@all")
    store = plugin.open_store("/session", url=f"unix://head:secret@{server.socket}")
    with pytest.raises(MetadataError, match="does not allow that to this user .*keys of the option prefix"):
        store.put("table", b"key", b"value")
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa/ss-secret@host:6379/0",
        "redis://:pa#ss-secret@host",
        "http://:secret@host",
        "redis://",
        "secret",
        "redis://host:secret/0",
    ],
)
def test_what_is_no_url_is_refused_without_a_word_of_it(url: str) -> None:
    story = story_of(url)
    assert "is not the address of a Redis; give redis://" in story
    assert "secret" not in story.split("MetadataError", 1)[1]


def test_only_the_place_is_shown() -> None:
    address = Address("rediss://user:secret@host:6380/2?ssl_cert_reqs=none&password=other")
    assert address.shown == "rediss://host:6380/2"
    assert address.url == "rediss://host:6380/2?ssl_cert_reqs=none"
    assert address.login is not None and address.login.get_credentials() == ("user", "secret")
    assert Address("redis://host").login is None


def test_over_tls(start_redis: Starter, tmp_path: Path) -> None:
    need("openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start_redis(
        "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-auth-clients", "no",
        "--tls-cert-file", str(certificate), "--tls-key-file", str(key),
    )  # fmt: skip
    url = f"rediss://localhost:{port}/0"
    store = plugin.open_store("/session", url=f"{url}?ssl_ca_certs={certificate}")
    store.put("table", b"key", b"value")
    assert store.get("table", b"key") == b"value"
    store.close()
    assert "certificate verify failed" in story_of(url), "a certificate that nobody vouches for"
    assert "has not answered" in story_of(f"redis://localhost:{port}/0"), "a plain client at a port for TLS"
