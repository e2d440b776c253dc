"""Certificates and keys that can't be used: what is said, and that the file is named."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from kernel_serve.errors import DeploymentError, ServeError
from kernel_serve.proxy.tls import tls_context
from kernel_serve.settings import HTTPOptions


def said(**options: Any) -> str:
    """Return why there is no TLS with these options."""
    with pytest.raises(ServeError) as caught:
        tls_context(HTTPOptions(**options))
    return str(caught.value)


def test_a_file_that_can_not_be_read_is_named(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    there = "; every machine with a proxy needs the file, at an absolute path"
    missing = "the proxy can't read {}='/no/such.pem': No such file or directory" + there
    assert said(ssl_certfile="/no/such.pem", ssl_keyfile=key) == missing.format("ssl_certfile")
    assert said(ssl_certfile=cert, ssl_keyfile="/no/such.pem") == missing.format("ssl_keyfile")
    assert said(ssl_certfile=cert, ssl_keyfile=key, ssl_ca_certs="/no/such.pem") == missing.format("ssl_ca_certs")


def test_files_that_are_something_else_are_named(certificate: tuple[str, str], tmp_path: Path) -> None:
    cert, key = certificate
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for files in ({"ssl_certfile": cert}, {"ssl_certfile": key, "ssl_keyfile": cert}, {"ssl_certfile": str(nonsense)}):
        text = said(**files)
        assert text.startswith(f"the proxy can't use ssl_certfile={files['ssl_certfile']!r}, ssl_keyfile=")
        assert text.endswith(
            "they must be a certificate and its private key in PEM format, and ssl_keyfile_password the password "
            "of the key if it is encrypted"
        )
    text = said(ssl_certfile=cert, ssl_keyfile=key, ssl_ca_certs=str(nonsense))
    assert text.startswith(f"the proxy can't use ssl_ca_certs={str(nonsense)!r}: ")
    assert text.endswith("; it must be certificates in PEM format")


def test_an_encrypted_key_needs_its_password(certificate: tuple[str, str], tmp_path: Path) -> None:
    cert, key = certificate
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    how = serialization.BestAvailableEncryption(b"open sesame")
    pem = loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    (tmp_path / "key.pem").write_bytes(pem)
    files = {"ssl_certfile": cert, "ssl_keyfile": str(tmp_path / "key.pem")}
    for password in ({}, {"ssl_keyfile_password": "open barley"}):
        assert said(**files, **password).startswith(f"the proxy can't use ssl_certfile={cert!r}, ssl_keyfile=")
    assert tls_context(HTTPOptions(**files, ssl_keyfile_password="open sesame"), ["h2"]) is not None


def test_clients_need_a_certificate_if_theirs_are_named(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    context = tls_context(HTTPOptions(ssl_certfile=cert, ssl_keyfile=key, ssl_ca_certs=cert))
    assert context is not None and context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("name", ["ssl_keyfile", "ssl_keyfile_password", "ssl_ca_certs"])
def test_half_of_tls_is_none_and_so_a_mistake(name: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        HTTPOptions(**{name: "x"})
    assert str(caught.value) == f"{name} is given, but no ssl_certfile: there would be no TLS at all"
