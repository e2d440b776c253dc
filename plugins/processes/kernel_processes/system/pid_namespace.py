"""The range in which a process id is valid: one PID namespace, of one host, from one boot to the next.

Containers have PID namespaces of their own, and may share a directory with each other, with their host, and with other
hosts. A process id that was written down elsewhere is unused here, or that of a foreign process.
"""

from __future__ import annotations

import os

from kernel_spec.dataclass import dataclass

_BOOT = "/proc/sys/kernel/random/boot_id"
_NUMBER = "/proc/self/ns/pid"


@dataclass(frozen=True, slots=True)
class PidNamespace:
    """A PID namespace. `host` is the machine's name, `boot` the id of its last start, `number` that of the namespace.

    A machine that does not tell them has "" there.
    """

    host: str
    boot: str
    number: str

    @classmethod
    def own(cls) -> PidNamespace:
        """Return that of this process."""
        try:
            with open(_BOOT) as file:
                boot = file.read().strip()
            number = os.readlink(_NUMBER)
        except OSError:
            boot = number = ""
        return cls(os.uname().nodename, boot, number)

    def is_known(self) -> bool:
        """Return whether it can be distinguished from others."""
        return bool(self.boot and self.number)

    def shares_processes_with(self, other: PidNamespace) -> bool:
        """Return whether a process id means the same in both; that a host has got another name changes nothing."""
        return (self.boot, self.number) == (other.boot, other.number)

    def seen_from(self, other: PidNamespace) -> str:
        """Return in words where it is for processes of `other`, "" if it is the same."""
        if self == other:
            return ""
        if self.host != other.host:
            return f"on host {self.host}"
        if self.boot != other.boot:
            return f"on host {self.host} before that was started last, or on another host of that name"
        return "in another PID namespace of this host, such as a container's"
