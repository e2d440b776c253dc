"""TLS for HTTP and gRPC, as the options of a proxy say."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_serve.errors import ServeError
from kernel_serve.settings import GRPCOptions, HTTPOptions

_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)


def tls_context(options: HTTPOptions | GRPCOptions, protocols: Sequence[str] = ()) -> ssl.SSLContext | None:
    """Return the context for TLS, None without a certificate. Raises ServeError, which names the bad file.

    `protocols` are offered to clients before HTTP/1.1, by their names in TLS.
    """
    if options.ssl_certfile is None:
        return None
    for setting in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs"):
        if (path := getattr(options, setting)) is not None:
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise ServeError(
                    f"the proxy can't read {setting}={path!r}: {error.strerror}; every machine with a proxy needs the "
                    "file, at an absolute path"
                ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    password = options.ssl_keyfile_password or ""  # without a password OpenSSL would ask for one at the terminal
    try:
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, password)
    except (ssl.SSLError, ValueError) as error:
        files = f"ssl_certfile={options.ssl_certfile!r}, ssl_keyfile={options.ssl_keyfile!r}"
        raise ServeError(
            f"the proxy can't use {files}: {error}; they must be a certificate and its private key in PEM "
            "format, and ssl_keyfile_password the password of the key if it is encrypted"
        ) from error
    if protocols:
        context.set_alpn_protocols([*protocols, "http/1.1"])
    if options.ssl_ca_certs is not None:
        try:
            context.load_verify_locations(options.ssl_ca_certs)
        except ssl.SSLError as error:
            raise ServeError(
                f"the proxy can't use ssl_ca_certs={options.ssl_ca_certs!r}: {error}; it must be certificates in PEM "
                "format"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def grpc_credentials(options: GRPCOptions) -> Any:
    """Return the credentials for gRPC's server, None without a certificate.

    Raises ServeError, which names the bad file.
    """
    if options.ssl_certfile is None:
        return None
    tls_context(options)  # gRPC's own error would only say that it can't listen
    import grpc

    certificate = Path(options.ssl_certfile).read_bytes()
    key = certificate if options.ssl_keyfile is None else Path(options.ssl_keyfile).read_bytes()
    if options.ssl_keyfile_password is not None:
        key = _decrypted(key, options.ssl_keyfile_password)
    authorities = None if options.ssl_ca_certs is None else Path(options.ssl_ca_certs).read_bytes()
    return grpc.ssl_server_credentials(((key, certificate),), authorities, authorities is not None)


def _decrypted(key: bytes, password: str) -> bytes:
    """Return a private key without encryption, as gRPC takes it."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise ServeError(
            f"ssl_keyfile_password is given, and gRPC takes only keys that need none ({error}): "
            "run pip install cryptography, which decrypts the key when a proxy starts, or give one without a password"
        ) from error
    block = _KEY.search(key)  # the file may have certificates, too
    try:
        found = serialization.load_pem_private_key(block[0] if block else key, password.encode())
    except TypeError:  # the key is not encrypted: OpenSSL took it without the password
        return key
    form = serialization.PrivateFormat.PKCS8
    plain: bytes = found.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return plain
