"""Finding an API server and logging in: kubeconfig files, programs that print credentials, and a pod's own account."""

from __future__ import annotations

import base64
import datetime
import json
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kernel_provider_kubernetes.access import in_cluster_access
from kernel_provider_kubernetes.api_server import ApiServer
from kernel_provider_kubernetes.kubeconfig import kubeconfig_access

from kernel_spec.errors import NodeProviderError
from plugins.provider_kubernetes.tests.stand_in_api import StandInApi

PODS = "/api/v1/namespaces/work/pods"
NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)


def clock() -> float:
    return NOW.timestamp()


@pytest.fixture
def api() -> Iterator[StandInApi]:
    server = StandInApi({"good": {("list", "pods")}})
    yield server
    server.close()


def config(directory: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> str:
    """Write a kubeconfig, and return its path."""
    file = directory / "config"
    said = {
        "current-context": "k",
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u", "namespace": "work"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(json.dumps({**said, **more}))
    return str(file)


def program(directory: Path, status: dict[str, Any] | str, code: int = 0) -> dict[str, Any]:
    """Return the `exec` of a program that notes its calls, and prints credentials."""
    file = directory / "login.py"
    text = json.dumps({"kind": "ExecCredential", "status": status}) if isinstance(status, dict) else status
    file.write_text(
        "import os, sys\n"
        f"calls = open({str(directory / 'calls')!r}, 'a')\n"
        "calls.write(os.environ['KERNEL_TEST'] + os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"print({text!r})\nprint('not today', file=sys.stderr)\nsys.exit({code})\n"
    )
    return {
        "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(file)],
        "env": [{"name": "KERNEL_TEST", "value": "told"}], "provideClusterInfo": True, "interactiveMode": "Never",
    }  # fmt: skip


def test_a_token_and_a_file_with_one(api: StandInApi, tmp_path: Path) -> None:
    access = kubeconfig_access(config(tmp_path, {"server": api.url}, {"token": "good"}), clock=clock)
    assert access.namespace == "work" and ApiServer(access).get(PODS)["items"] == []
    (tmp_path / "token").write_text("old\n")
    server = ApiServer(kubeconfig_access(config(tmp_path, {"server": api.url}, {"tokenFile": "token"}), clock=clock))
    with pytest.raises(NodeProviderError, match="401"):
        server.get(PODS)
    (tmp_path / "token").write_text("good\n")
    assert server.get(PODS)["items"] == [], "the file is read again, as its token expires"


def test_a_program_logs_in_and_is_asked_again_when_its_token_ends(api: StandInApi, tmp_path: Path) -> None:
    end = (NOW + datetime.timedelta(minutes=15)).isoformat()
    login = program(tmp_path, {"token": "good", "expirationTimestamp": end})
    now = [clock()]
    access = kubeconfig_access(config(tmp_path, {"server": api.url}, {"exec": login}), clock=lambda: now[0])
    server = ApiServer(access)
    assert server.get(PODS)["items"] == [] and server.get(PODS)["items"] == []
    calls = (tmp_path / "calls").read_text()
    assert calls.count("told") == 1 and api.url in calls
    now[0] += 14.5 * 60
    assert server.get(PODS)["items"] == [] and (tmp_path / "calls").read_text().count("told") == 2


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({"token": "x"}, 3, r"ended with 3: not today"),
        ("no JSON", 0, r"printed no ExecCredential"),
        ({}, 0, r"printed no ExecCredential: it has neither a token nor a certificate"),
    ],
)
def test_a_program_that_fails_is_named(
    api: StandInApi, tmp_path: Path, status: dict[str, Any] | str, code: int, text: str
) -> None:
    file = config(tmp_path, {"server": api.url}, {"exec": program(tmp_path, status, code)})
    with pytest.raises(NodeProviderError, match=f"context 'k' of .*{text}") as caught:
        ApiServer(kubeconfig_access(file, clock=clock)).get(PODS)
    assert caught.value.code == "credentials"


def test_files_are_merged_and_contexts_chosen(api: StandInApi, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    first = config(tmp_path / "first", {"server": api.url}, {"token": "good"}, users=[], **{"current-context": ""})
    context = {"name": "other", "context": {"cluster": "c", "user": "u"}}
    second = config(tmp_path, {"server": "http://127.0.0.1:1"}, {"token": "good"}, contexts=[context])
    access = kubeconfig_access(f"{first}:{tmp_path / 'missing'}:{second}", "other", "given", clock=clock)
    assert (access.server, access.namespace) == (api.url, "given") and access.authorization() == "Bearer good"
    assert kubeconfig_access(f"{first}:{second}", clock=clock).namespace == "work"


@pytest.mark.parametrize(
    ("cluster", "user", "more", "text", "code"),
    [
        ({"server": "https://x"}, {"auth-provider": {"name": "gcp"}}, {}, "'auth-provider', which kernel", "invalid"),
        ({"server": "https://x", "proxy-url": "http://p"}, {}, {}, "says 'proxy-url'", "invalid"),
        ({"server": "x:6443"}, {}, {}, "names the server 'x:6443', which is no URL", "invalid"),
        ({"server": "http://10.0.0.1"}, {"token": "t"}, {}, "in the clear", "credentials"),
        ({"server": "https://x"}, {"client-certificate-data": "AAAA"}, {}, "can't be used", "credentials"),
        ({"server": "https://x"}, {}, {"current-context": "z"}, "has no context 'z'; it has k", "invalid"),
        ({"server": "https://x"}, {}, {"current-context": ""}, "has no current-context", "invalid"),
        ({"server": "https://x"}, {"exec": {"apiVersion": "v1alpha1"}}, {}, "of version 'v1alpha1'", "invalid"),
        (
            {"server": "https://x"},
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always"}},
            {}, "wants to ask somebody", "credentials",
        ),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], more: dict[str, Any], text: str, code: str
) -> None:
    with pytest.raises(NodeProviderError, match=text) as caught:
        kubeconfig_access(config(tmp_path, cluster, user, **more), clock=clock)
    assert caught.value.code == code


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeProviderError, match=f"there is no kubeconfig: {tmp_path}/none is not there"):
        kubeconfig_access(str(tmp_path / "none"), clock=clock)
    (tmp_path / "broken").write_text("a: [")
    with pytest.raises(NodeProviderError, match=f"the kubeconfig {tmp_path}/broken can't be read"):
        kubeconfig_access(str(tmp_path / "broken"), clock=clock)


def test_the_account_of_a_pod(api: StandInApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NodeProviderError, match="runs in no pod with a service account"):
        in_cluster_access(directory=tmp_path)
    authority, _, _ = issued()
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "namespace").write_text("work\n")
    (tmp_path / "token").write_text("good\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    access = in_cluster_access(directory=tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:6443", "work")
    assert access.authorization() == "Bearer good" and in_cluster_access("own", tmp_path).namespace == "own"


def issued() -> tuple[bytes, bytes, bytes]:
    """Return an authority's certificate, and a certificate of it for `inside.example` and 127.0.0.1 with its key."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("authority", "both")]
    others = [x509.DNSName("inside.example")]
    made = []
    for key, name in zip(keys, names, strict=True):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(names[0]).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=name == names[0], path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        made.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made[0], made[1], secret


def test_both_sides_show_certificates(tmp_path: Path) -> None:
    authority, certificate, key = issued()
    (tmp_path / "both.pem").write_bytes(certificate + key)
    (tmp_path / "ca.pem").write_bytes(authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "both.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    api = StandInApi(tls=context)
    try:
        user = {
            "client-certificate-data": base64.b64encode(certificate).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        }
        cluster = {"server": api.url, "certificate-authority": "ca.pem", "tls-server-name": "inside.example"}
        access = kubeconfig_access(config(tmp_path, cluster, user), clock=clock)
        assert ApiServer(access).get(PODS)["items"] == []
        wrong_name = {**cluster, "tls-server-name": "outside.example"}
        with pytest.raises(NodeProviderError, match="certificate"):
            ApiServer(kubeconfig_access(config(tmp_path, wrong_name, user), clock=clock)).get(PODS)
        with pytest.raises(NodeProviderError, match="did not answer"):
            ApiServer(kubeconfig_access(config(tmp_path, cluster, {}), clock=clock)).get(PODS)
        login = program(tmp_path, {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})
        access = kubeconfig_access(config(tmp_path, cluster, {"exec": login}), clock=clock)
        assert ApiServer(access).get(PODS)["items"] == [] and access.authorization() == ""
    finally:
        api.close()


def test_a_kept_connection_that_the_server_has_left_is_made_anew(api: StandInApi, tmp_path: Path) -> None:
    server = ApiServer(kubeconfig_access(config(tmp_path, {"server": api.url}, {"token": "good"}), clock=clock))
    assert server.get(PODS)["items"] == []
    assert server._kept is not None and server._kept.sock is not None
    server._kept.sock.shutdown(2)
    assert server.get(PODS)["items"] == []
