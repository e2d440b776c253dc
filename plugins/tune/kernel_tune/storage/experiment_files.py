"""The files in an experiment's directory with its state.

- `experiment.log`: all events (see `event_log`)
- `experiment.pkl`: the state of everything that decides, with its position in the log; replaced periodically
- `experiment_state.json`: the state in readable form: trials, configurations, last results
"""

from __future__ import annotations

import logging
import os
import pickle
import re
from collections.abc import Iterator
from typing import Any

import cloudpickle

from kernel_runs.pickling import why_not
from kernel_tune.errors import TuneError
from kernel_tune.storage import event_log

_log = logging.getLogger("kernel.tune")

LOG_FILE = "experiment.log"
SNAPSHOT_FILE = "experiment.pkl"
STATE_FILE = "experiment_state.json"
SETTINGS_FILE = "tuner.pkl"


def newest_of(root: str, trainable_name: str) -> str:
    """Return the name of the newest experiment below `root` that is named after this trainable, or ""."""
    named = re.compile(rf"{re.escape(trainable_name)}(_\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d(_\d+)?)?")
    there = os.listdir(root) if os.path.isdir(root) else []
    names = [name for name in there if named.fullmatch(name) and ExperimentFiles(os.path.join(root, name)).exist]
    return max(names, key=lambda name: os.stat(os.path.join(root, name, LOG_FILE)).st_mtime_ns, default="")


class ExperimentFiles:
    """Reads and writes the files. `directory` is the experiment's."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._log: event_log.EventLog | None = None

    def path(self, name: str) -> str:
        """Return the path of a file in the experiment's directory."""
        return os.path.join(self.directory, name)

    @property
    def exist(self) -> bool:
        """Whether there is an experiment in the directory."""
        return os.path.exists(self.path(SNAPSHOT_FILE)) and os.path.exists(self.path(LOG_FILE))

    def begin(self) -> None:
        """Begin a new experiment. The state of an earlier one in the directory is removed; the files of its trials
        stay.

        Raises TuneError if the directory can't be written to, or another run uses it.
        """
        try:
            os.makedirs(self.directory, exist_ok=True)
            self.open()
            for name in (SNAPSHOT_FILE, STATE_FILE):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
        except OSError as error:
            raise TuneError(
                f"the experiment's directory {self.directory} can't be made use of: {error.strerror or error}. Give "
                "another one (storage_path of RunConfig, local_dir of tune.run), or make that one writable"
            ) from error
        self.cut_log(0)

    def open(self) -> None:
        """Open the log, for this run alone. Raises TuneError while another run has it open."""
        self._log = event_log.EventLog(self.path(LOG_FILE))

    def add(self, record: Any) -> None:
        """Add a record to the log."""
        assert self._log is not None
        self._log.add(record)

    def cut_log(self, size: int) -> None:
        """Truncate the log to `size` bytes."""
        assert self._log is not None
        self._log.cut(size)

    @property
    def log_size(self) -> int:
        """The length of the log in bytes."""
        return self._log.size if self._log is not None else 0

    def records(self, offset: int) -> Iterator[tuple[int, Any]]:
        """Yield each record of the log from `offset` on, with the position after it."""
        return event_log.read(self.path(LOG_FILE), offset)

    def write_snapshot(self, state: dict[str, Any]) -> None:
        """Write the state at the present end of the log.

        Raises TuneError if it can't be pickled, OSError if it can't be written. The previous one stays then.
        """
        assert self._log is not None
        try:
            data = cloudpickle.dumps({"offset": self._log.size, **state}, protocol=5)
        except Exception as error:
            raise TuneError(f"it can't be pickled: {why_not(state, 'state') or error}") from error
        self._log.sync()
        write_whole(self.path(SNAPSHOT_FILE), data)

    def read_snapshot(self) -> dict[str, Any]:
        """Return the state that `write_snapshot` has written, with its `offset` in the log.

        Raises TuneError if the file does not exist, is damaged, or needs modules that are missing.
        """
        path = self.path(SNAPSHOT_FILE)
        try:
            with open(path, "rb") as file:
                value = pickle.load(file)
            if not isinstance(value, dict) or "offset" not in value:
                raise pickle.UnpicklingError(f"it has a {type(value).__name__}")
            return value
        except FileNotFoundError:
            raise TuneError(f"no experiment to resume is in {self.directory}: {SNAPSHOT_FILE} is not there") from None
        except (ImportError, AttributeError) as error:
            raise TuneError(
                f"{path} can't be read ({type(error).__name__}: {error}): it needs the same modules as the program "
                "that wrote it"
            ) from error
        except Exception as error:
            raise TuneError(
                f"{path} is damaged ({type(error).__name__}: {error}), and the experiment can't be resumed: what its "
                f"trials have reported is in their directories (tune.ExperimentAnalysis({self.directory!r})); run it "
                "under another name"
            ) from error

    def write_settings(self, settings: dict[str, Any]) -> bool:
        """Write the settings of a tuner, for `Tuner.restore`. Return False if they can't be pickled."""
        try:
            write_whole(self.path(SETTINGS_FILE), cloudpickle.dumps(settings, protocol=5))
        except Exception:  # pickling runs methods of users' objects
            return False
        return True

    def read_settings(self) -> dict[str, Any]:
        """Return the settings of `write_settings`, {} if there are none. Unreadable ones are logged as a warning."""
        path = self.path(SETTINGS_FILE)
        try:
            with open(path, "rb") as file:
                value = pickle.load(file)
            if not isinstance(value, dict):
                raise pickle.UnpicklingError(f"it has a {type(value).__name__}")
            return value
        except FileNotFoundError:
            return {}
        except Exception as error:  # damaged, or written by another program
            _log.warning(
                "%s can't be read (%s: %s): metric, stop criteria and other settings of the tuner are the usual ones "
                "unless they are given again", path, type(error).__name__, error,
            )  # fmt: skip
            return {}

    def write_state(self, text: str) -> None:
        """Write the readable state, which is JSON."""
        write_whole(self.path(STATE_FILE), text.encode())

    def close(self) -> None:
        """Flush and close the log."""
        if self._log is not None:
            log, self._log = self._log, None
            log.close()


def write_whole(path: str, data: bytes) -> None:
    """Replace a file atomically: after a kill it has the old content or the new one.

    A temporary file that a kill leaves behind has always the same name, and is replaced by the next write.
    """
    temporary = f"{path}.writing"
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
