"""The role by which machines may read how they join, where none is configured."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import code_of, translating

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
_POLICY = "kernel-join"


class NodeRole:
    """Makes a role and an instance profile for the machines of one cluster. What is there already is kept."""

    def __init__(self, clients: Clients, cluster: str, parameter: str) -> None:
        self._clients = clients
        self._cluster = cluster
        self._parameter = parameter
        self._made = False

    @property
    def name(self) -> str:
        """Return the name of both. IAM is one for all regions, so the region is in it."""
        return f"kernel-{self._cluster}-{self._clients.region}"[:64]

    def ensure(self) -> str:
        """Return the name of the instance profile, which is there then. Raises NodeProviderError."""
        if self._made:
            return self.name
        iam, name = self._clients["iam"], self.name
        with translating(
            f"make the role {name}, by which machines read how they join (or give IamInstanceProfile in node_config, "
            f"one that may call ssm:GetParameter for {self._parameter})"
        ):
            _unless_there(iam.create_role, RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
            iam.put_role_policy(RoleName=name, PolicyName=_POLICY, PolicyDocument=json.dumps(self._policy()))
            _unless_there(iam.create_instance_profile, InstanceProfileName=name)
            if not iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
                iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        self._made = True
        return name

    def remove(self) -> None:
        """Remove both. Raises NodeProviderError."""
        iam, name = self._clients["iam"], self.name
        with translating(f"remove the role {name}"):
            _if_there(iam.remove_role_from_instance_profile, InstanceProfileName=name, RoleName=name)
            _if_there(iam.delete_instance_profile, InstanceProfileName=name)
            _if_there(iam.delete_role_policy, RoleName=name, PolicyName=_POLICY)
            _if_there(iam.delete_role, RoleName=name)
        self._made = False

    def _policy(self) -> dict[str, Any]:
        place = f"arn:{self._clients.partition}:ssm:{self._clients.region}:*:parameter{self._parameter}"
        allowed = {"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": place}
        return {"Version": "2012-10-17", "Statement": [allowed]}


def _unless_there(call: Callable[..., object], **given: str) -> None:
    try:
        call(**given)
    except ClientError as error:
        if code_of(error) != "EntityAlreadyExists":
            raise


def _if_there(call: Callable[..., object], **given: str) -> None:
    try:
        call(**given)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
