"""A TLS socket that behaves as a plain one does, with its errors explained. Importing this loads `ssl`."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from typing import Any

from kernel_network_tcp.transport.preamble import refusal_of
from kernel_spec.errors import OptionError

_SLICE = 64 * 1024
_SWITCH = "switch TLS on there too, or off here"
_REASONS = {
    "WRONG_VERSION_NUMBER": f"the peer speaks no TLS: {_SWITCH}",
    "HTTP_REQUEST": f"the peer speaks no TLS: {_SWITCH}",
    "RECORD_LAYER_FAILURE": f"the peer speaks no TLS: {_SWITCH}",
    "UNSUPPORTED_PROTOCOL": "the peer speaks an older TLS than 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer speaks an older TLS than 1.3",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer shows no certificate: give it one of the cluster's authority",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer wants a certificate of the cluster's authority, and got none",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer refuses the certificate of this node: it is expired, or not yet valid",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refuses the certificate of this node: it is not valid",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer refuses the certificate of this node: it is of another authority",
}
_EXPIRED, _NOT_YET = 10, 9
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_VERIFY_REASONS = {
    _EXPIRED: "the peer's certificate has expired: renew it with `kernel certificates renew`",
    _NOT_YET: "the peer's certificate is not valid yet: compare the clocks of both machines",
    **dict.fromkeys(_UNKNOWN_ISSUER, "the peer's certificate is of another authority: all nodes need one of the same"),
}


class TlsSocket(ssl.SSLSocket):
    """Wraps TLS: raises BlockingIOError where a plain socket would, and OSError with a plain reason for other errors.

    While it does not block, one thread may read and another write: OpenSSL itself does not allow that.
    """

    _alone: Any

    def __new__(cls, *arguments: Any, **options: Any) -> TlsSocket:
        """Make one with its lock: the constructor of its base can't be extended."""
        self = super().__new__(cls, *arguments, **options)
        self._alone = threading.RLock()  # A destructor may run during a call, and write.
        return self

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Return received bytes, all that are decrypted already: the loop only notices those in the system's buffer."""
        try:
            if self.gettimeout() != 0:
                return super().recv(buflen, flags)
            with self._alone:
                data = super().recv(buflen, flags)
                while data and (waiting := self.pending()):
                    data += super().recv(waiting, flags)
                return data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError(errno.EAGAIN, "nothing is there yet") from error
        except ssl.SSLError as error:
            raise OSError(errno.EPROTO, explain(error)) from error

    def send(self, data: Any, flags: int = 0) -> int:
        """Send the beginning of `data`; return its length. After BlockingIOError, it has to be the same beginning."""
        try:
            if self.gettimeout() != 0:
                return super().send(data, flags)
            with self._alone:
                return super().send(memoryview(data)[:_SLICE], flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError(errno.EAGAIN, "nothing is taken now") from error
        except ssl.SSLError as error:
            raise OSError(errno.EPROTO, explain(error)) from error

    def _refusal(self) -> OSError | None:
        """Return why a gateway refuses, which it says before there is any TLS."""
        try:
            return refusal_of(socket.socket.recv(self, 16, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return None

    def shake_hands(self) -> str:
        """Go on with the TLS handshake; return "" when it is done, else whether to wait for "read" or "write".

        Raises OSError with the reason when it fails.
        """
        try:
            if (refusal := self._refusal()) is not None:
                raise refusal
            self.do_handshake()
        except ssl.SSLWantReadError:
            return "read"
        except ssl.SSLWantWriteError:
            return "write"
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:  # The version of OpenSSL decides which one.
            raise OSError(errno.ECONNRESET, "the peer closed the connection during the TLS handshake") from error
        except ssl.SSLError as error:  # A refusal may have arrived, whose first half was read as a record.
            raise self._refusal() or OSError(errno.EPROTO, explain(error)) from error
        return ""


def make_context(certificate: str, key: str, authority: str, server: bool) -> ssl.SSLContext:
    """Return a context of TLS 1.3 that shows `certificate` and wants one of `authority`.

    Raises OptionError when a file can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.sslsocket_class = TlsSocket
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # Each connection shows its certificate anew.
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        raise OptionError(f"{authority} is not a certificate of an authority in PEM form: {_why(error)}") from error
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise OptionError(
            f"{certificate} and {key} are no certificate and its key (PEM, not encrypted): {_why(error)}"
        ) from error
    return context


def explain(error: ssl.SSLError) -> str:
    """Return in one line what went wrong, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        about = _VERIFY_REASONS.get(error.verify_code)
        return about or f"the peer's certificate is refused: {error.verify_message}"
    return _REASONS.get(error.reason or "", f"TLS failed: {_why(error)}")


def secure(sock: socket.socket) -> str:
    """Go on with the TLS handshake of a socket that `Credentials.wrap` returned; see `TlsSocket.shake_hands`."""
    assert isinstance(sock, TlsSocket)
    return sock.shake_hands()


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).replace("_", " ").lower()
