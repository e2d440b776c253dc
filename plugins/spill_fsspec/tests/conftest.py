"""An S3-compatible server for tests, which can be stopped and started again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "spilled"


class S3Server:
    """A server with one bucket, which keeps what it has while it is stopped."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        _, self.port = self._server.get_host_and_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.is_stopped = False
        self.url = f"s3://{BUCKET}/some/place"

    def client(self) -> Any:
        """Return a client of its own, to look from outside."""
        return boto3.client("s3", endpoint_url=self.endpoint)

    def names(self) -> list[str]:
        """Return the keys of all that is there."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        found = [each["Key"] for page in pages for each in page.get("Contents", [])]
        client.close()
        return found

    def uploads(self) -> list[Any]:
        """Return the uploads that were begun and neither completed nor given up."""
        client = self.client()
        found: list[Any] = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        client.close()
        return found

    def stop(self) -> None:
        """Stop to answer."""
        self._server.stop()
        self.is_stopped = True

    def start(self) -> None:
        """Answer again, at the same address."""
        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()
        self.is_stopped = False


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Start a server for all tests."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Say in the environment where the server is and how to log in; its bucket is empty before and after the test."""
    server = s3_server
    for name, value in {
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret-word",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    client = server.client()
    client.create_bucket(Bucket=BUCKET)
    client.close()
    yield server
    if server.is_stopped:
        server.start()
    client = server.client()
    for key in server.names():
        client.delete_object(Bucket=BUCKET, Key=key)
    client.close()
