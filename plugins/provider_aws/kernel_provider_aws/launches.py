"""Make machines: the settings of RunInstances, zone after zone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from kernel_provider_aws.attempts import LaunchAttempts
from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import code_of, translated, translating
from kernel_provider_aws.instances import CLUSTER, KIND, LAUNCH, ROLE, TOKEN
from kernel_provider_aws.settings import AwsSettings, KindSettings, wrong
from kernel_spec.errors import NodeProviderError
from kernel_spec.nearest import nearest
from kernel_spec.providers import CAPACITY

_EXTRA = ("SubnetIds",)
_TAGGED = ("instance", "volume")


def launch_digest(launch: Mapping[str, Any], user_data: str) -> str:
    """Return a word for what a machine is made of: machines with the same may stand in for each other."""
    text = json.dumps([launch, user_data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Launcher:
    """Makes machines of a cluster."""

    def __init__(self, clients: Clients, settings: AwsSettings, attempts: LaunchAttempts) -> None:
        self._clients = clients
        self._settings = settings
        self._attempts = attempts

    def check(self, kind: KindSettings) -> None:
        """Raise NodeProviderError for a setting that RunInstances does not have."""
        known = (*self._clients["ec2"].meta.service_model.operation_model("RunInstances").input_shape.members, *_EXTRA)
        for name in kind.launch:
            if name not in known:
                near = nearest(name, known)
                hint = f"; did you mean {near!r}?" if near else ""
                raise wrong(f"{name!r} in kind {kind.name!r} is no setting of RunInstances{hint}")

    def launch(
        self, kind: KindSettings, count: int, token: str, settings: Mapping[str, Any], places: Sequence[str]
    ) -> list[str] | None:
        """Make up to `count` machines in the first of `places` (subnets) that has any; return their ids.

        A token that was given before is tried first where it was tried last. Return None if EC2 knows the token, but
        with other settings: then there are machines with it. Raises NodeProviderError.
        """
        last = self._attempts.place(token)
        problems: list[str] = []
        for place in places[places.index(last) :] if last in places else places:
            self._attempts.begin(token, place)
            try:
                answer = self._clients["ec2"].run_instances(**self._call(kind, count, token, settings, place))
            except ClientError as error:
                if code_of(error) == "IdempotentParameterMismatch":
                    return None
                refused = translated(error, f"make {count} machines of kind {kind.name!r}")
                if refused.code != CAPACITY:
                    raise refused from error  # A later call with this token goes on here.
                problems.append(f"{place or 'the default zone'}: {error}")
            except BotoCoreError as error:
                raise translated(error, f"make {count} machines of kind {kind.name!r}") from error
            else:
                return [one["InstanceId"] for one in answer["Instances"]]
        self._attempts.end(token)
        raise NodeProviderError(
            f"AWS: can't make {count} machines of kind {kind.name!r}: {'; '.join(problems)}", code=CAPACITY
        )

    def tags(self, kind: KindSettings, token: str, digest: str) -> list[dict[str, str]]:
        """Return the tags of a machine."""
        own = {CLUSTER: self._settings.cluster, ROLE: self._settings.role, KIND: kind.name, TOKEN: token}
        name = f"kernel-{self._settings.cluster}-{self._settings.role}"
        every = {"Name": name, **self._settings.tags, **own, LAUNCH: digest}
        return [{"Key": key, "Value": value} for key, value in every.items()]

    def start_again(self, ids: Sequence[str], token: str) -> None:
        """Start stopped machines, which bear `token` from now on. Raises NodeProviderError."""
        with translating(f"start {len(ids)} stopped machines"):
            self._clients["ec2"].create_tags(Resources=list(ids), Tags=[{"Key": TOKEN, "Value": token}])
            self._clients["ec2"].start_instances(InstanceIds=list(ids))

    def _call(
        self, kind: KindSettings, count: int, token: str, settings: Mapping[str, Any], place: str
    ) -> dict[str, Any]:
        where = {"SubnetId": place} if place else {}
        digest = launch_digest(kind.launch, settings.get("UserData", ""))
        tags = self.tags(kind, token, digest)
        given = settings.get("TagSpecifications", [])
        others = [one for one in given if one["ResourceType"] not in _TAGGED]
        more = {one["ResourceType"]: one["Tags"] for one in given if one["ResourceType"] in _TAGGED}
        names = {tag["Key"] for tag in tags} - {"Name"}
        specified = [
            {"ResourceType": what, "Tags": _merged(tags, [t for t in more.get(what, []) if t["Key"] not in names])}
            for what in _TAGGED
        ]
        return {
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required"},
            **settings,
            **where,
            "TagSpecifications": [*specified, *others],
            "MinCount": 1,
            "MaxCount": count,
            "ClientToken": hashlib.sha256(f"{token}/{place}".encode()).hexdigest(),
        }


def _merged(tags: Sequence[Mapping[str, str]], more: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    found = {tag["Key"]: tag["Value"] for tag in [*tags, *more]}
    return [{"Key": key, "Value": value} for key, value in found.items()]
