"""The image of a machine."""

from __future__ import annotations

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating
from kernel_provider_aws.settings import wrong

LATEST = "latest_dlami"
_NAMES = "Deep Learning*Ubuntu*"


class Images:
    """Finds images. What was found stays the same as long as this process lives."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._latest: str | None = None

    def id(self, wanted: str) -> str:
        """Return an image's id; for "latest_dlami" that of the newest Deep Learning AMI with Ubuntu, for x86_64.

        Raises NodeProviderError.
        """
        if wanted != LATEST:
            return wanted
        if self._latest is None:
            filters = {"name": _NAMES, "state": "available", "architecture": "x86_64"}
            with translating("find the newest Deep Learning AMI"):
                answer = self._clients["ec2"].describe_images(
                    Owners=["amazon"], Filters=[{"Name": name, "Values": [value]} for name, value in filters.items()]
                )
            images = sorted(answer["Images"], key=lambda image: (image["CreationDate"], image["ImageId"]))
            if not images:
                raise wrong(f"this region has no image of Amazon named {_NAMES!r}: give an ImageId")
            self._latest = images[-1]["ImageId"]
        return self._latest
