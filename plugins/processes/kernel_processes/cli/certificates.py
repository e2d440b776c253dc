"""An authority of the cluster's own: its certificate, and those of nodes, as files. Needs `cryptography`."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError, UsageError
from kernel_spec.tls_files import AUTHORITY, CERTIFICATE, KEY, NODE_NAME

AUTHORITY_KEY = "ca.key"
AUTHORITY_DAYS = 3650
NODE_DAYS = 365
SOON_DAYS = 30
"""A certificate's owner is warned from this many days before its end on."""
_CLOCKS = timedelta(hours=1)
"""The largest difference that is allowed between the clocks of two machines."""


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """The contents of one certificate: for whom, from when, until when."""

    path: str
    subject: str
    names: tuple[str, ...]
    begins: datetime
    ends: datetime

    def state(self, now: datetime) -> str:
        """Return "expired", "not valid yet", "expires soon" or "valid"."""
        if now >= self.ends:
            return "expired"
        if now < self.begins:
            return "not valid yet"
        return "expires soon" if self.ends - now < timedelta(days=SOON_DAYS) else "valid"


def create(directory: Path, names: Sequence[str] = (), days: int = NODE_DAYS, now: datetime | None = None) -> None:
    """Write an authority, and a certificate and key for nodes, into `directory`, made if need be.

    The certificate is for this machine and `names`. Raises UsageError where there is an authority
    already, and OptionError for an invalid name.
    """
    for name in names:
        _general_name(name)  # Refuses a wrong name before anything is written.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / AUTHORITY_KEY).exists() or (directory / AUTHORITY).exists():
        raise UsageError(
            f"there is an authority in {directory}; `kernel certificates renew {directory}` makes a new certificate of "
            "it, and without it every node needs a new one"
        )
    begins = now or datetime.now(timezone.utc)
    key = _new_key()
    authority = _sign(key, "kernel authority", key, None, (), begins, AUTHORITY_DAYS)
    _write(directory / AUTHORITY_KEY, _key_bytes(key))
    _write(directory / AUTHORITY, _pem(authority))
    renew(directory, names, days, begins)


def renew(directory: Path, names: Sequence[str] = (), days: int = NODE_DAYS, now: datetime | None = None) -> None:
    """Write a new certificate and key for nodes, of the authority in `directory`; the old ones stay valid.

    Raises UsageError where there is no authority.
    """
    try:
        authority_key = _read_key(directory / AUTHORITY_KEY)
        authority = _read(directory / AUTHORITY)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no authority in {directory} ({AUTHORITY_KEY} and {AUTHORITY}); make one where none is with "
            f"`kernel certificates create {directory}`"
        ) from error
    key = _new_key()
    all_names = (NODE_NAME, "localhost", "127.0.0.1", "::1", socket.gethostname(), *names)
    begins = now or datetime.now(timezone.utc)
    certificate = _sign(key, "kernel node", authority_key, authority, tuple(dict.fromkeys(all_names)), begins, days)
    _write(directory / KEY, _key_bytes(key))  # The key first: a reader of the new certificate finds its key.
    _write(directory / CERTIFICATE, _pem(certificate))


def describe(path: Path) -> CertificateInfo:
    """Return what the certificate in `path` says. Raises OptionError if it is no certificate, OSError if unreadable."""
    certificate = _read(path)
    x509 = _cryptography().x509
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = tuple(str(name.value) for name in found)
    except x509.ExtensionNotFound:
        names = ()
    return CertificateInfo(
        str(path),
        certificate.subject.rfc4514_string(),
        names,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _sign(
    key: Any, name: str, issuer_key: Any, issuer: Any, names: tuple[str, ...], begins: datetime, days: int
) -> Any:
    """Return a certificate for `key`: of the authority `issuer`, or of a new authority where that is None."""
    x509, hashes = _cryptography().x509, _cryptography().hashes
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - _CLOCKS)
        .not_valid_after(begins + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None), True)
        .add_extension(_usage(issuer is None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(issuer_identifier, False)
    )
    if issuer is not None:
        both = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), False)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(one) for one in names]), False)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(authority: bool) -> Any:
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    wanted = ("key_cert_sign", "crl_sign") if authority else ("digital_signature",)
    return _cryptography().x509.KeyUsage(**{name: name in wanted for name in names.split()})


def _general_name(name: str) -> Any:
    x509 = _cryptography().x509
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise OptionError(f"{name!r} is no name of a machine: expected one like head.example or 10.0.0.1") from error


def _new_key() -> Any:
    ec = _cryptography().ec
    return ec.generate_private_key(ec.SECP256R1())


def _key_bytes(key: Any) -> bytes:
    serialization = _cryptography().serialization
    data: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return data


def _pem(certificate: Any) -> bytes:
    data: bytes = certificate.public_bytes(_cryptography().serialization.Encoding.PEM)
    return data


def _read(path: Path) -> Any:
    try:
        return _cryptography().x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise OptionError(f"{path} is no certificate (PEM): {error}") from error


def _read_key(path: Path) -> Any:
    try:
        return _cryptography().serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise OptionError(f"{path} is no private key (PEM, not encrypted): {error}") from error


def _write(path: Path, data: bytes) -> None:
    """Put `data` into `path`, for its user alone, whole or not at all."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(new, path)


class _Modules:
    """Holds the modules of `cryptography` that are used here."""

    def __init__(self) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise UsageError(
                f"certificates need the package cryptography ({error}); run: pip install cryptography"
            ) from error
        self.x509: Any = x509
        self.hashes: Any = hashes
        self.serialization: Any = serialization
        self.ec: Any = ec


_modules: list[_Modules] = []


def _cryptography() -> _Modules:
    if not _modules:
        _modules.append(_Modules())
    return _modules[0]
