"""Where machines are, and what reaches them: subnets, and a security group where none is configured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import code_of, translating
from kernel_provider_aws.settings import wrong
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Subnet:
    """One subnet."""

    id: str
    zone: str
    vpc: str


class Network:
    """Finds subnets, and makes the security group of a cluster: its machines reach each other, `ssh_from` port 22."""

    def __init__(self, clients: Clients, cluster: str, zones: Sequence[str], ssh_from: Sequence[str]) -> None:
        self._clients = clients
        self._zones = tuple(zones)
        self._ssh_from = tuple(ssh_from)
        self._subnets: dict[tuple[str, ...], tuple[Subnet, ...]] = {}
        self._groups: dict[str, str] = {}
        self.group_name = f"kernel-{cluster}"

    def subnets(self, ids: Sequence[str]) -> tuple[Subnet, ...]:
        """Return the subnets with these ids, or where none is given those that the default VPC has, in zones' order.

        Raises NodeProviderError: `invalid` where there is none.
        """
        key = tuple(ids)
        if key not in self._subnets:
            asked: dict[str, Any] = {"SubnetIds": list(ids)} if ids else {}
            if not ids:
                asked = {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
            with translating(f"find the subnets {', '.join(ids)}" if ids else "find the subnets of the default VPC"):
                answer = self._clients["ec2"].describe_subnets(**asked)
            self._subnets[key] = self._ordered(
                [Subnet(said["SubnetId"], said["AvailabilityZone"], said["VpcId"]) for said in answer["Subnets"]], key
            )
        return self._subnets[key]

    def group(self, vpc: str) -> str:
        """Return the id of the cluster's security group in a VPC, which is there then. Raises NodeProviderError."""
        if vpc not in self._groups:
            with translating(f"make the security group {self.group_name} (or give SecurityGroupIds in node_config)"):
                group = self._found(vpc) or self._made(vpc)
                self._allow(group)
            self._groups[vpc] = group
        return self._groups[vpc]

    def remove(self) -> None:
        """Remove the cluster's security groups, which no machine may have any more. Raises NodeProviderError."""
        ec2 = self._clients["ec2"]
        with translating(f"remove the security group {self.group_name}"):
            for said in ec2.describe_security_groups(Filters=_named(self.group_name))["SecurityGroups"]:
                ec2.delete_security_group(GroupId=said["GroupId"])
        self._groups.clear()

    def _ordered(self, found: list[Subnet], given: tuple[str, ...]) -> tuple[Subnet, ...]:
        if self._zones:
            found = [one for one in found if one.zone in self._zones]
            found.sort(key=lambda one: self._zones.index(one.zone))
        elif given:
            found.sort(key=lambda one: given.index(one.id))
        else:
            found.sort(key=lambda one: one.zone)
        if not found:
            where = f" in {', '.join(self._zones)}" if self._zones else ""
            raise wrong(f"there is no subnet{where} for machines: give SubnetIds in node_config")
        return tuple(found)

    def _found(self, vpc: str) -> str | None:
        filters = [*_named(self.group_name), {"Name": "vpc-id", "Values": [vpc]}]
        groups = self._clients["ec2"].describe_security_groups(Filters=filters)["SecurityGroups"]
        return groups[0]["GroupId"] if groups else None

    def _made(self, vpc: str) -> str:
        try:
            answer = self._clients["ec2"].create_security_group(
                GroupName=self.group_name, Description="Machines of a kernel cluster", VpcId=vpc
            )
        except ClientError as error:
            found = self._found(vpc) if code_of(error) == "InvalidGroup.Duplicate" else None
            if found is None:
                raise
            return found
        return str(answer["GroupId"])

    def _allow(self, group: str) -> None:
        among = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
        ssh = [
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": one}]} for one in self._ssh_from
        ]
        for permission in [among, *ssh]:
            try:
                self._clients["ec2"].authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
            except ClientError as error:
                if code_of(error) != "InvalidPermission.Duplicate":
                    raise


def _named(name: str) -> list[dict[str, Any]]:
    return [{"Name": "group-name", "Values": [name]}]
