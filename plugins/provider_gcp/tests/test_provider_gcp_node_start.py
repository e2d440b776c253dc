"""What a machine does at its start, and how credentials are found, with a metadata server of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kernel_provider_gcp.credentials import ApplicationCredentials
from kernel_provider_gcp.settings import read_settings
from kernel_provider_gcp.startup_script import startup_script

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS
from plugins.provider_gcp.tests.gcp_providers import JOIN, configuration, make_provider
from plugins.provider_gcp.tests.google_stand_in import ACCOUNT, PROJECT, GoogleStandIn

_TOKEN = json.dumps({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})
SAID = {
    "/": "computeMetadata/",
    "/computeMetadata/v1/instance/name": "kernel-a-1-0",
    "/computeMetadata/v1/instance/service-accounts/default/token": _TOKEN,
    f"/computeMetadata/v1/instance/service-accounts/{ACCOUNT}/token": _TOKEN,
    "/computeMetadata/v1/project/project-id": PROJECT,
    "/computeMetadata/v1/instance/service-accounts/default/": json.dumps({"email": ACCOUNT, "scopes": []}),
    "/computeMetadata/v1/universe/universe-domain": "googleapis.com",
}


class GoogleMetadata(BaseHTTPRequestHandler):
    """Says nothing without the header that keeps browsers out."""

    def do_GET(self) -> None:
        text = SAID.get(self.path.partition("?")[0]) if self.headers["Metadata-Flavor"] == "Google" else None
        self.send_response(404 if text is None else 200)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/json" if (text or "").startswith("{") else "application/text")
        self.send_header("Content-Length", str(len(text or "")))
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    """Return where the server is."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), GoogleMetadata)
    threading.Thread(target=lambda: server.serve_forever(0.05), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_machine_starts_a_node_by_what_the_secret_says(google: GoogleStandIn, metadata: str, tmp_path: Path) -> None:
    given = configuration(start_options=["--block"])
    make_provider(google, given).create("small", 1, JOIN)
    python = tmp_path / "python"  # runs what it is given on its input, and else writes down how it was called
    python.write_text(
        f'#!/bin/bash\nif [ "$1" = - ]; then exec {sys.executable} "$@"; fi\n'
        f'printf "%s\\n" "$@" > {tmp_path}/called; cat "$7" > {tmp_path}/token; stat -c %a "$7" > {tmp_path}/mode\n'
    )
    python.chmod(0o755)
    settings = read_settings({**given, "python": str(python)})
    secret = f"http://{google.address}/v1/projects/{PROJECT}/secrets/kernel-{given['cluster_name']}-join"
    script = startup_script(settings, {"CPU": 4.0}, {"zone": "a"}, secret)
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "GCE_METADATA_HOST": metadata}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    called = (tmp_path / "called").read_text().split()
    file = called[6]
    assert called == [
        "-m", "kernel.cli.main", "start", "--address", JOIN["address"], "--token-file", file, "--provider-id",
        "kernel-a-1-0", "--num-cpus", "4", "--num-gpus", "0", "--labels", "zone=a", "--block",
    ]  # fmt: skip
    assert (tmp_path / "token").read_text() == JOIN["token"] and (tmp_path / "mode").read_text().strip() == "600"
    assert not Path(file).exists(), "the token does not stay on the machine"


def test_credentials_that_are_wrong_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key.json").write_text('{"type": "none"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    with pytest.raises(NodeProviderError, match="^Google: no credentials: .*give the head a service account") as caught:
        ApplicationCredentials().token()
    assert caught.value.code == CREDENTIALS


def test_a_machines_own_account_is_used(metadata: str, tmp_path: Path) -> None:
    """In a process of its own: google-auth reads where the metadata is when it is imported."""
    program = "from kernel_provider_gcp.credentials import ApplicationCredentials as A; print(A().token())"
    own = {
        "GCE_METADATA_HOST": metadata,
        "GCE_METADATA_IP": metadata,
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": "/none",
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOOGLE_")}
    path = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, **own, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "a-token", done.stderr
