"""Start a node on a new machine. Compute Engine runs this text there as root, at each boot.

It needs nothing but Python's standard library, and takes one argument, as JSON: what
`kernel_provider_gcp.startup_script` has put together. Where the head is and the cluster's token are read from a secret
of the Secret Manager, by the rights of the machine's service account: so neither is in the machine's metadata, which
many may read.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

METADATA = f"http://{os.environ.get('GCE_METADATA_HOST', 'metadata.google.internal')}/computeMetadata/v1/instance/"
TRIES, PAUSE_SECONDS = 20, 3.0
"""How often the secret is asked for: new rights count after some seconds, up to a minute."""


def metadata(path: str) -> str:
    """Return what the metadata server says of this machine."""
    asked = urllib.request.Request(METADATA + path, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        said: str = answer.read().decode()
        return said


def secret(place: str) -> str:
    """Return the newest version of the secret at a URL."""
    token = json.loads(metadata("service-accounts/default/token"))["access_token"]
    asked = urllib.request.Request(f"{place}/versions/latest:access", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return base64.b64decode(json.load(answer)["payload"]["data"]).decode()
    except urllib.error.HTTPError as error:
        raise OSError(f"{place} is refused: {error.code} {error.read()[:500].decode(errors='replace')}") from None


def patiently(place: str) -> str:
    """Return the same, trying again while that fails."""
    for _ in range(TRIES - 1):
        try:
            return secret(place)
        except (OSError, ValueError, LookupError) as error:
            print(f"kernel: {error}; trying again", file=sys.stderr, flush=True)
            time.sleep(PAUSE_SECONDS)
    return secret(place)


def main() -> int:
    """Start the node, and return the exit code of `kernel start`."""
    given = json.loads(sys.argv[1])
    join = json.loads(patiently(given["secret"]))
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
            "--provider-id", metadata("name"), *given["arguments"],
        ]  # fmt: skip
        home = {"HOME": account.pw_dir, "USER": account.pw_name} if account else {}
        return subprocess.run(command, env={**os.environ, **home}, cwd="/", **who).returncode  # type: ignore[call-overload, no-any-return]
    finally:
        with contextlib.suppress(OSError):
            os.unlink(file)


if __name__ == "__main__":
    sys.exit(main())
