"""The node provider `aws`: machines of EC2."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from kernel_provider_aws.attempts import LaunchAttempts
from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import code_of, translating
from kernel_provider_aws.images import Images
from kernel_provider_aws.instance_types import resources_of_types
from kernel_provider_aws.instances import KIND, LAUNCH, TOKEN, InstanceListing
from kernel_provider_aws.interruptions import InterruptionWatch
from kernel_provider_aws.join_parameter import JoinParameter
from kernel_provider_aws.key_pair import ensure_key_pair
from kernel_provider_aws.launches import Launcher, launch_digest
from kernel_provider_aws.network import Network
from kernel_provider_aws.prices import spot_price
from kernel_provider_aws.role import NodeRole
from kernel_provider_aws.settings import AwsSettings, KindSettings, wrong
from kernel_provider_aws.user_data import user_data
from kernel_spec.providers import Interruption, KindDetails, ProvidedNode

BATCH = 200
"""How many machines are ended by one call."""
_ID = re.compile(r"i-[0-9a-f]{8,17}")


class AwsProvider:
    """Makes and ends machines as `settings` say. `clock` returns seconds, `wall` those since the epoch."""

    name = "aws"

    def __init__(
        self, settings: AwsSettings, clients: Clients, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._clients = clients
        self._resources: dict[str, Mapping[str, float]] = {}
        file = settings.session / f"attempts-{settings.role}.json" if settings.session else None
        self._attempts = LaunchAttempts(file)
        self._launcher = Launcher(clients, settings, self._attempts)
        self._instances = InstanceListing(
            clients,
            settings.cluster,
            settings.role,
            settings.cache_stopped_nodes,
            clock,
            settings.use_internal_ips,
        )
        self._network = Network(clients, settings.cluster, settings.zones, settings.ssh_from)
        self._images = Images(clients)
        self._parameter = JoinParameter(clients, settings.cluster)
        self._role = NodeRole(clients, settings.cluster, self._parameter.name)
        self._watch = InterruptionWatch(clients, any(kind.is_spot for kind in settings.kinds.values()), wall)

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the kinds and their resources: those that were given, else what EC2 says of the instance type.

        Raises NodeProviderError.
        """
        if not self._resources:
            for kind in self._settings.kinds.values():
                self._launcher.check(kind)
            kinds = self._settings.kinds.values()
            asked = resources_of_types(self._clients, [one.instance_type for one in kinds if one.resources is None])
            self._resources = {
                one.name: asked[one.instance_type] if one.resources is None else one.resources for one in kinds
            }
        return {name: dict(resources) for name, resources in self._resources.items()}

    def describe(self, kind: str) -> KindDetails:
        """Return what a kind costs: as configured, or now for spot machines. Raises NodeProviderError."""
        known = self._known(kind)
        price = known.price
        if price is None and known.is_spot:
            price = spot_price(self._clients, known.instance_type, tuple(self._settings.zones))
        zone = self._settings.zones[0] if len(self._settings.zones) == 1 else ""
        return KindDetails(price, known.is_spot, zone, known.labels, known.boot_seconds)

    def list(self) -> Sequence[ProvidedNode]:
        """Return the machines of the cluster and the role. Raises NodeProviderError."""
        return self._instances.nodes()

    def events(self) -> Sequence[Interruption]:
        """Return the spot notices and the maintenance that were announced since the last call."""
        return self._watch.new(self._instances.known)

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Make up to `count` machines, and return their ids; those of the same `token`, if any.

        With an empty `join` they start nothing, and are for a launcher to set up. Raises NodeProviderError.
        """
        known = self._known(kind)
        if count < 1:
            raise wrong(f"{count} machines of kind {kind!r} were asked for, not 1 up")
        own = self._own_token(token)
        ids = self._with_token(own) if token else []
        if not ids:
            ids = self._make(known, count, join, own)
        self._instances.made(kind, ids)
        return ids

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines, or with `cache_stopped_nodes` stop those that can be. Unknown ids are ignored.

        Raises NodeProviderError.
        """
        wanted = [id for id in dict.fromkeys(ids) if _ID.fullmatch(id)]
        if wanted and self._settings.cache_stopped_nodes:
            stopped = self._stopped(wanted)
            self._instances.ended(stopped)
            wanted = [id for id in wanted if id not in stopped]
        for first in range(0, len(wanted), BATCH):
            batch = wanted[first : first + BATCH]
            self._end(batch)
            self._instances.ended(batch)

    def remove_all(self) -> None:
        """Remove what was made beside machines: parameter, role and security group. Raises NodeProviderError."""
        self._parameter.remove()
        self._role.remove()
        self._network.remove()

    # -- making ----------------------------------------------------------------------------------------------------

    def _make(self, kind: KindSettings, count: int, join: Mapping[str, Any], token: str) -> Sequence[str]:
        if join:
            self._parameter.write(join)
        settings, places = self._launch_settings(kind, bool(join))
        if self._settings.cache_stopped_nodes and not kind.is_spot and self._attempts.place(token) is None:
            again = self._start_stopped(kind, count, token, settings)
            if again:
                return again
        ids = self._launcher.launch(kind, count, token, settings, places)
        if ids is None:
            ids = list(self._with_token(token))
            if not ids:
                raise wrong(f"AWS knows this order of {kind.name!r} with other settings, and lists no machine of it")
        return ids

    def _launch_settings(self, kind: KindSettings, joins: bool) -> tuple[dict[str, Any], Sequence[str]]:
        """Return the settings of RunInstances, and the subnets to be tried."""
        settings = {**kind.launch, "ImageId": self._images.id(kind.launch["ImageId"])}
        places: Sequence[str] = [""]
        if "NetworkInterfaces" not in settings:
            subnets = self._network.subnets(kind.subnets)
            places = [one.id for one in subnets]
            if not settings.keys() & {"SecurityGroupIds", "SecurityGroups"}:
                settings["SecurityGroupIds"] = [self._network.group(subnets[0].vpc)]
        if self._settings.key_file and "KeyName" not in settings:
            name = f"kernel-{self._settings.cluster}"
            settings["KeyName"] = ensure_key_pair(self._clients, name, self._settings.key_file)
        if joins:
            if "IamInstanceProfile" not in settings:
                settings["IamInstanceProfile"] = {"Name": self._role.ensure()}
            settings["UserData"] = self._user_data(kind)
        return settings, places

    def _user_data(self, kind: KindSettings) -> str:
        domain = "amazonaws.com.cn" if self._clients.partition == "aws-cn" else "amazonaws.com"
        resources, region = self.kinds()[kind.name], self._clients.region
        return user_data(self._settings.start, resources, kind.labels, self._parameter.name, region, domain)

    def _own_token(self, token: str) -> str:
        """Return a token of this session alone: another one of the same cluster counts its orders anew."""
        if not token:
            return uuid.uuid4().hex
        text = f"{self._settings.session or ''}/{self._settings.cluster}/{self._settings.role}/{token}"
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def _with_token(self, token: str) -> Sequence[str]:
        """Return the machines that bear a token; if the answer of their start got lost, they are started now."""
        found = self._instances.found({TOKEN: token})
        stopped = [one["InstanceId"] for one in found if one["State"]["Name"] == "stopped"]
        if stopped:
            self._launcher.start_again(stopped, token)
        return sorted(one["InstanceId"] for one in found)

    def _known(self, kind: str) -> KindSettings:
        if kind not in self._settings.kinds:
            raise wrong(f"there is no kind {kind!r}; the kinds are {', '.join(self._settings.kinds)}")
        return self._settings.kinds[kind]

    # -- machines in reserve ---------------------------------------------------------------------------------------

    def _start_stopped(self, kind: KindSettings, count: int, token: str, settings: Mapping[str, Any]) -> Sequence[str]:
        digest = launch_digest(kind.launch, settings.get("UserData", ""))
        stopped = self._instances.found({KIND: kind.name, LAUNCH: digest}, ["stopped"])
        ids = sorted(one["InstanceId"] for one in stopped)[:count]
        if ids:
            self._launcher.start_again(ids, token)
        return ids

    def _stopped(self, ids: Sequence[str]) -> Sequence[str]:
        """Stop those of the machines that can be started again, and return them."""
        running = self._instances.found({}, ["running"])
        able = [one["InstanceId"] for one in running if one.get("InstanceLifecycle") != "spot"]
        chosen = [id for id in ids if id in able]
        if chosen:
            with translating(f"stop {len(chosen)} machines"):
                self._clients["ec2"].delete_tags(Resources=chosen, Tags=[{"Key": TOKEN}])
                self._clients["ec2"].stop_instances(InstanceIds=chosen)
        return chosen

    def _end(self, ids: Sequence[str]) -> None:
        """End machines; those that are not there are left out."""
        left = list(ids)
        while left:
            with translating(f"end {len(left)} machines"):
                try:
                    self._clients["ec2"].terminate_instances(InstanceIds=left)
                    return
                except ClientError as error:
                    missing = set(_ID.findall(str(error)))
                    if code_of(error) != "InvalidInstanceID.NotFound" or not missing & set(left):
                        raise
                    left = [id for id in left if id not in missing]
