"""Advice for a head that can't be reached, or refuses this node: the end of the error message."""

from __future__ import annotations


def connect_hint(why: str, program: bool = False) -> str:
    """Return what to do about the reason `why`, where that reason does not say it itself.

    It names options of commands, or (for a `program`) arguments of `kernel.init`.
    """
    if "session token" in why:
        token = "token_file=... of kernel.init" if program else "--token-file FILE"
        return f"; `kernel token` on its machine shows the one that is needed ({token} or KERNEL_TOKEN)"
    if "TLS" in why or "certificate" in why:
        tls = "tls=DIR of kernel.init" if program else "--tls DIR"
        return f" ({tls} or KERNEL_TLS, on every machine of the cluster or on none)"
    if "nobody of that name" in why:
        return "; a node without the head listens there: `kernel status` on any node shows where the head is"
    if "can't be reached" in why or "answer" in why:
        return (
            "; `kernel status` on its machine says whether it runs and where it listens (to that machine alone, unless "
            "it was started with --node-ip-address)"
        )
    return ""
