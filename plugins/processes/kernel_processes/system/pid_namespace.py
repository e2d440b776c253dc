"""The scope in which a process id is valid: one PID namespace of one host, from one boot to the next.

Containers have PID namespaces of their own, and may share a directory with each other, with their host, and with other
hosts. A process id that was written in another namespace is unused in this one, or belongs to an unrelated process.
"""

from __future__ import annotations

import os

from kernel_spec.dataclass import dataclass

_BOOT = "/proc/sys/kernel/random/boot_id"
_NUMBER = "/proc/self/ns/pid"


@dataclass(frozen=True, slots=True)
class PidNamespace:
    """Identifies a PID namespace: `host` is the machine's name, `boot` the id of its last start, `number` its own.

    `boot` and `number` are "" where the system does not provide them.
    """

    host: str
    boot: str
    number: str

    @classmethod
    def own(cls) -> PidNamespace:
        """Return the namespace of this process."""
        try:
            with open(_BOOT) as file:
                boot = file.read().strip()
            number = os.readlink(_NUMBER)
        except OSError:
            boot = number = ""
        return cls(os.uname().nodename, boot, number)

    def is_known(self) -> bool:
        """Return whether the namespace can be distinguished from others."""
        return bool(self.boot and self.number)

    def shares_processes_with(self, other: PidNamespace) -> bool:
        """Return whether a process id means the same in both; the host's name may have changed."""
        return (self.boot, self.number) == (other.boot, other.number)

    def seen_from(self, other: PidNamespace) -> str:
        """Return a phrase that says where this namespace is, seen from `other`; "" if they are the same."""
        if self == other:
            return ""
        if self.host != other.host:
            return f"on host {self.host}"
        if self.boot != other.boot:
            return f"on host {self.host} before its last boot, or on another host of that name"
        return "in another PID namespace of this host, such as a container's"
