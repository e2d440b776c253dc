"""Start a node on a new machine. EC2 hands this text to the machine, which runs it as root at each boot.

It needs nothing but Python's standard library, and takes one argument: what `kernel_provider_aws.user_data` has put
together, as JSON. Where the head is and the cluster's token are read from a parameter of the Systems Manager, by the
rights of the machine's role: so neither is in the user data, which many may read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import pwd
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
TRIES, PAUSE_SECONDS = 20, 3.0
"""How often the parameter is asked for: a new role has its rights after some seconds."""


def metadata(path: str) -> str:
    """Return what the metadata service (version 2) says."""
    asked = urllib.request.Request(
        f"{METADATA}/latest/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        token = answer.read().decode()
    asked = urllib.request.Request(f"{METADATA}/latest/{path}", headers={"X-aws-ec2-metadata-token": token})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        said: str = answer.read().decode()
        return said


def signed_headers(host: str, body: bytes, region: str, credentials: dict[str, str], moment: str) -> dict[str, str]:
    """Return the headers of a call of SSM's GetParameter, signed with version 4; `moment` as 20260131T235959Z."""
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "host": host,
        "x-amz-date": moment,
        "x-amz-security-token": credentials["Token"],
        "x-amz-target": "AmazonSSM.GetParameter",
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/ssm/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = b"AWS4" + credentials["SecretAccessKey"].encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    credential = f"{credentials['AccessKeyId']}/{scope}"
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return headers


def parameter(name: str, region: str, domain: str) -> str:
    """Return the decrypted value of a parameter."""
    role = metadata("meta-data/iam/security-credentials/").split()[0]
    credentials = json.loads(metadata(f"meta-data/iam/security-credentials/{role}"))
    place = os.environ.get("AWS_ENDPOINT_URL_SSM", f"https://ssm.{region}.{domain}").rstrip("/")
    body = json.dumps({"Name": name, "WithDecryption": True}).encode()
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = signed_headers(place.partition("://")[2], body, region, credentials, moment)
    asked = urllib.request.Request(f"{place}/", data=body, headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            value: str = json.load(answer)["Parameter"]["Value"]
            return value
    except urllib.error.HTTPError as error:
        raise OSError(f"SSM refuses {name}: {error.code} {error.read()[:500].decode(errors='replace')}") from None


def patiently(name: str, region: str, domain: str) -> str:
    """Return the same, trying again while that fails."""
    for _ in range(TRIES - 1):
        try:
            return parameter(name, region, domain)
        except (OSError, ValueError, LookupError) as error:
            print(f"kernel: {error}; trying again", file=sys.stderr, flush=True)
            time.sleep(PAUSE_SECONDS)
    return parameter(name, region, domain)


def main() -> int:
    """Start the node, and return the exit code of `kernel start`."""
    given = json.loads(sys.argv[1])
    join = json.loads(patiently(given["parameter"], given["region"], given["domain"]))
    account = pwd.getpwnam(given["user"]) if given["user"] else None
    who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
    descriptor, file = tempfile.mkstemp()
    try:
        with open(descriptor, "w") as written:
            written.write(join["token"])
        if account:
            os.chown(file, account.pw_uid, account.pw_gid)
        command = [
            given["python"], "-m", "kernel.cli.main", "start", "--address", join["address"], "--token-file", file,
            "--provider-id", metadata("meta-data/instance-id"), *given["arguments"],
        ]  # fmt: skip
        home = {"HOME": account.pw_dir, "USER": account.pw_name} if account else {}
        return subprocess.run(command, env={**os.environ, **home}, cwd="/", **who).returncode  # type: ignore[call-overload, no-any-return]
    finally:
        with contextlib.suppress(OSError):
            os.unlink(file)


if __name__ == "__main__":
    sys.exit(main())
