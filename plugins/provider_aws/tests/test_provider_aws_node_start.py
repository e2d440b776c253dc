"""What a machine does at its start, with a metadata service of our own and moto's Systems Manager."""

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
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from kernel_provider_aws.node_start import signed_headers
from kernel_provider_aws.settings import NodeStart
from kernel_provider_aws.user_data import start_script

from plugins.provider_aws.tests.aws_providers import JOIN, clients
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn

KEYS = {"AccessKeyId": "AKIA1", "SecretAccessKey": "secret", "Token": "session-token"}
SAID = {
    "/latest/meta-data/instance-id": "i-0123456789abcdef0",
    "/latest/meta-data/iam/security-credentials/": "role",
    "/latest/meta-data/iam/security-credentials/role": json.dumps(KEYS),
}


class MetadataService(BaseHTTPRequestHandler):
    """Version 2: nothing is said without a token."""

    def do_PUT(self) -> None:
        self._say("the-token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else None)

    def do_GET(self) -> None:
        self._say(SAID.get(self.path) if self.headers["X-aws-ec2-metadata-token"] == "the-token" else None)

    def _say(self, text: str | None) -> None:
        self.send_response(401 if text is None else 200)
        self.send_header("Content-Length", str(len(text or "")))
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    """Return where the service is."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), MetadataService)
    threading.Thread(target=lambda: server.serve_forever(0.05), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_machine_starts_a_node_by_what_the_parameter_says(ec2: Ec2StandIn, metadata: str, tmp_path: Path) -> None:
    clients("")["ssm"].put_parameter(Name="/kernel/a/join", Value=json.dumps(JOIN), Type="SecureString", Overwrite=True)
    python = tmp_path / "python"  # runs what it is given on its input, and else writes down how it was called
    python.write_text(
        f'#!/bin/bash\nif [ "$1" = - ]; then exec {sys.executable} "$@"; fi\n'
        f'printf "%s\\n" "$@" > {tmp_path}/called; cat "$7" > {tmp_path}/token; stat -c %a "$7" > {tmp_path}/mode\n'
    )
    python.chmod(0o755)
    start = NodeStart(python=str(python), start_options=("--block",))
    script = start_script(start, {"CPU": 2.0}, {"zone": "a"}, "/kernel/a/join", "us-west-2", "amazonaws.com")
    places = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata, "AWS_ENDPOINT_URL_SSM": ec2.endpoint}
    done = subprocess.run(["bash", "-c", script], env={**os.environ, **places}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    called = (tmp_path / "called").read_text().split()
    file = called[6]
    assert called == [
        "-m", "kernel.cli.main", "start", "--address", JOIN["address"], "--token-file", file, "--provider-id",
        "i-0123456789abcdef0", "--num-cpus", "2", "--num-gpus", "0", "--labels", "zone=a", "--block",
    ]  # fmt: skip
    assert (tmp_path / "token").read_text() == JOIN["token"] and (tmp_path / "mode").read_text().strip() == "600"
    assert not Path(file).exists(), "the token does not stay on the machine"


def test_its_call_is_signed_as_botocore_signs() -> None:
    body, moment = b'{"Name": "/kernel/a/join"}', "20260131T235959Z"
    ours = signed_headers("ssm.us-west-2.amazonaws.com", body, "us-west-2", KEYS, moment)
    request = AWSRequest(
        "POST",
        "https://ssm.us-west-2.amazonaws.com/",
        {name: value for name, value in ours.items() if name not in ("authorization", "host")},
        body,
    )
    request.context["timestamp"] = moment
    signer = SigV4Auth(Credentials("AKIA1", "secret", "session-token"), "ssm", "us-west-2")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert ours["authorization"].endswith(f"Signature={signer.signature(text, request)}")
