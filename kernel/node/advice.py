"""What to do when a head can't be reached, or does not want us: the end of the error that says so."""

from __future__ import annotations


def advice_on(why: str) -> str:
    """Return what to do about the reason `why`, where that reason does not say it itself."""
    if "session token" in why:
        return "; `kernel token` on its machine shows the one that is needed (--token-file FILE or KERNEL_TOKEN)"
    if "TLS" in why or "certificate" in why:
        return " (--tls DIR or KERNEL_TLS, on every machine of the cluster or on none)"
    if "nobody of that name" in why:
        return "; a node without the head listens there: `kernel status` on any node shows where the head is"
    if "can't be reached" in why or "answer" in why:
        return (
            "; `kernel status` on its machine says whether it runs and where it listens (to that machine alone, unless "
            "it was started with --node-ip-address)"
        )
    return ""
