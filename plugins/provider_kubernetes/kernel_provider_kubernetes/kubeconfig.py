"""Read kubeconfig files, as kubectl does: which server, which user, which namespace."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_provider_kubernetes.access import ServerAccess, check_server
from kernel_provider_kubernetes.exec_credentials import ExecCredentials
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID

_CLUSTER = {
    "server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name",
    "extensions", "disable-compression",
}  # fmt: skip
_USER = {
    "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile", "exec",
    "username", "password", "extensions",
}  # fmt: skip


def kubeconfig_access(
    files: str, context: str = "", namespace: str = "", *, clock: Callable[[], float]
) -> ServerAccess:
    """Return the access that `files` give (paths with `:` between them, as in KUBECONFIG) in a `context`.

    The first file that names something counts. `context` and `namespace` are by default those of the files. Raises
    NodeProviderError, which names the file and the part, for what can't be read, is not there, or is not understood.
    """
    merged = _merged([Path(name).expanduser() for name in files.split(os.pathsep) if name])
    name = context or merged["current-context"]
    if not name:
        raise NodeProviderError(f"{files} has no current-context: name a context", code=INVALID)
    chosen = _named(merged, "contexts", name, files)
    where = f"context {name!r} of {files}"
    cluster = _named(merged, "clusters", str(chosen.get("cluster", "")), where)
    user = _named(merged, "users", str(chosen["user"]), where) if chosen.get("user") else {}
    _check_keys(cluster, _CLUSTER, f"the cluster of {where}")
    _check_keys(user, _USER, f"the user of {where}")
    server = str(cluster.get("server", ""))
    login = ExecCredentials(user["exec"], _told(cluster), where, clock) if user.get("exec") else None
    authorization = _authorization(user, login)
    secret = any(user.get(one) for one in ("token", "tokenFile", "password", "exec"))
    check_server(server, secret, where)
    tls = _tls(cluster, user, login, where) if server.startswith("https:") else None
    return ServerAccess(
        server,
        namespace or str(chosen.get("namespace") or "default"),
        tls,
        authorization,
        str(cluster.get("tls-server-name", "")),
    )


def _merged(files: list[Path]) -> dict[str, Any]:
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    found = [file for file in files if file.exists()]
    if not found:
        shown = ", ".join(map(str, files)) or "no file"
        raise NodeProviderError(
            f"there is no kubeconfig: {shown} is not there. Name one with kubeconfig = ..., or log in to the cluster",
            code=CREDENTIALS,
        )
    for file in found:
        said = _read(file)
        merged["current-context"] = merged["current-context"] or str(said.get("current-context") or "")
        for part in ("clusters", "users", "contexts"):
            for one in said.get(part) or ():
                body = _with_paths(dict(one.get(part[:-1]) or {}), file.parent)
                merged[part].setdefault(str(one.get("name")), body)
    return merged


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NodeProviderError(f"the kubeconfig {file} can't be read: {error}", code=INVALID) from None
    if not isinstance(said, dict):
        raise NodeProviderError(f"the kubeconfig {file} is no mapping, but {type(said).__name__}", code=INVALID)
    return said


def _with_paths(body: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Make paths absolute, which are relative to the file that names them."""
    for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        if body.get(key):
            body[key] = str(directory / str(body[key]))
    command = str((body.get("exec") or {}).get("command", ""))
    if os.sep in command:
        body["exec"] = {**body["exec"], "command": str(directory / command)}
    return body


def _named(merged: Mapping[str, Any], part: str, name: str, where: str) -> Mapping[str, Any]:
    if name not in merged[part]:
        known = ", ".join(sorted(merged[part])) or "none"
        raise NodeProviderError(f"{where} has no {part[:-1]} {name!r}; it has {known}", code=INVALID)
    found: Mapping[str, Any] = merged[part][name]
    return found


def _check_keys(said: Mapping[str, Any], known: set[str], where: str) -> None:
    for key, value in said.items():
        if key not in known and value:
            raise NodeProviderError(
                f"{where} says {key!r}, which kernel does not know; it knows {', '.join(sorted(known))}", code=INVALID
            )


def _told(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a program for credentials is told of the cluster."""
    said = {"server": cluster.get("server"), "certificate-authority-data": cluster.get("certificate-authority-data")}
    return {key: value for key, value in said.items() if value}


def _authorization(user: Mapping[str, Any], login: ExecCredentials | None) -> Callable[[], str]:
    if user.get("tokenFile"):
        file = Path(str(user["tokenFile"]))
        return lambda: f"Bearer {file.read_text().strip()}"
    if user.get("token"):
        return lambda: f"Bearer {user['token']}"
    if user.get("username"):
        pair = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        return lambda: f"Basic {pair}"
    if login is not None:
        return lambda: f"Bearer {token}" if (token := login.token()) else ""
    return lambda: ""


def _tls(
    cluster: Mapping[str, Any], user: Mapping[str, Any], login: ExecCredentials | None, where: str
) -> ssl.SSLContext:
    try:
        authority = _pem(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority or None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
        if login is not None and not certificate:
            certificate, key = login.certificate()
        if certificate:
            _load(context, certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise NodeProviderError(f"the certificates of {where} can't be used: {error}", code=CREDENTIALS) from None
    return context


def _pem(said: Mapping[str, Any], name: str) -> str:
    if said.get(f"{name}-data"):
        return base64.b64decode(str(said[f"{name}-data"])).decode()
    return Path(str(said[name])).read_text() if said.get(name) else ""


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its key, which Python takes from files only: one that is there for a moment, for us."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # of mode 0600
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)
