"""Where Redis is, and how to log in: a url taken apart so that its secrets are in one place that nothing shows."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis.credentials import CredentialProvider

from kernel_spec.errors import MetadataError

SCHEMES = ("redis", "rediss", "unix")
_SECRETS = ("username", "password")


class Login(CredentialProvider):  # type: ignore[misc]
    """Asked by the client for each new connection; a password in a file may change meanwhile."""

    def __init__(self, user: str, password: str, file: str | None) -> None:
        self._user, self._password, self._file = user, password, file

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the user, if one is named, and the password; raise MetadataError when its file can't be read."""
        password = self._password
        if self._file is not None:
            try:
                password = Path(self._file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as problem:
                reason = getattr(problem, "strerror", None) or "it is not text"
                raise MetadataError(
                    f"can't read the password of Redis from {self._file}: {reason}. "
                    "Correct the option password_file, or make the file readable for the user who starts the head"
                ) from None
        return (self._user, password) if self._user else (password,)


class Address:
    """`url` is what the client may connect to, without secrets, `shown` is for people, `login` None for no password.

    Raises MetadataError for what is no url of Redis, without showing any of it.
    """

    def __init__(self, url: str, password_file: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises for one that is no number
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in SCHEMES or parts.fragment or not (parts.hostname or parts.scheme == "unix"):
            raise MetadataError(
                "the option url of the metadata store redis is not the address of a Redis; give "
                "redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS or unix:///PATH?db=NUMBER, "
                "with / # ? @ : of a password written as %2F %23 %3F %40 %3A"
            ) from None
        query = dict(parse_qsl(parts.query))
        user = unquote(parts.username or "") or query.get("username", "")
        password = unquote(parts.password or "") or query.get("password", "")
        place = parts.netloc.rpartition("@")[2]
        rest = urlencode({key: value for key, value in query.items() if key not in _SECRETS})
        self.shown = f"{parts.scheme}://{place}{parts.path}"
        self.url = f"{self.shown}?{rest}" if rest else self.shown
        self.login = Login(user, password, password_file) if password or password_file else None
