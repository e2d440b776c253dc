"""The key pair by which people reach machines over SSH, where one is wanted and none is configured."""

from __future__ import annotations

import os
from pathlib import Path

from botocore.exceptions import ClientError

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import code_of, translating
from kernel_provider_aws.settings import wrong


def ensure_key_pair(clients: Clients, name: str, file: Path) -> str:
    """Return `name`, of a key pair that is there then; the private key of a new one is written to `file`.

    Raises NodeProviderError, `invalid` where only one of both is there.
    """
    with translating(f"make the key pair {name} (or give KeyName in node_config)"):
        try:
            there = bool(clients["ec2"].describe_key_pairs(KeyNames=[name])["KeyPairs"])
        except ClientError as error:
            if code_of(error) != "InvalidKeyPair.NotFound":
                raise
            there = False
        if there != file.exists():
            lost, kept = (f"{file} is not there", "delete the key pair") if there else (f"{file} is", "move the file")
            state = "there, but" if there else "not there, but"
            raise wrong(f"the key pair {name} is {state} {lost}: {kept}, or give KeyName in node_config")
        if not there:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
                try:
                    written.write(clients["ec2"].create_key_pair(KeyName=name)["KeyMaterial"])
                except BaseException:
                    file.unlink()
                    raise
    return name
