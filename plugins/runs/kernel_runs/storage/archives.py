"""Directories as bytes: uncompressed zip files, which are equal for equal files."""

from __future__ import annotations

import io
import os
import shutil
import zipfile

from kernel_runs.errors import CheckpointError

_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date of the zip format, used for all files: the bytes are to depend on contents alone."""


def to_archive(directory: str) -> bytes:
    """Return the files of a directory as bytes. Links are followed; folders without files are left out."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for folder, folders, names in os.walk(directory):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                entry = zipfile.ZipInfo(os.path.relpath(path, directory).replace(os.sep, "/"), _DATE)
                with open(path, "rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target)
    return data.getvalue()


def from_archive(data: bytes, directory: str) -> None:
    """Write the files of an archive into a directory, and nowhere else. Raises CheckpointError for other bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(directory)
    except zipfile.BadZipFile as error:
        raise CheckpointError(
            f"{len(data):,} bytes are not a checkpoint ({error}): give what Checkpoint.to_bytes() has returned"
        ) from error
