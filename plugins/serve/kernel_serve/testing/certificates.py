"""Certificates for tests of TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path


def write_certificates(folder: Path) -> None:
    """Write self-signed certificates for 127.0.0.1, of a "server" and of a "client", and their keys.

    Of each there are NAME.pem and NAME.key; NAME-locked.key, whose password is "open sesame"; both in one file
    (NAME-both.pem, NAME-both-locked.pem). There is also nonsense.pem. It needs the package cryptography.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        day, now = datetime.timedelta(1), datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
        builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        plain = key.private_bytes(pem, form, serialization.NoEncryption())
        locked = key.private_bytes(pem, form, serialization.BestAvailableEncryption(b"open sesame"))
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
        (folder / f"{name}.key").write_bytes(plain)
        (folder / f"{name}-locked.key").write_bytes(locked)
        (folder / f"{name}-both.pem").write_bytes(certificate.public_bytes(pem) + plain)
        (folder / f"{name}-both-locked.pem").write_bytes(certificate.public_bytes(pem) + locked)
    (folder / "nonsense.pem").write_text("nonsense")
