"""The calls of programs whose episodes go on outside: in order to the sampler, which answers with actions.

Threads of the program call; one thread, the sampler's, takes the calls. A thread that asks for an action waits until
the sampler has chosen it. Other calls return at once, unless very many were not taken yet.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kernel_rllib.errors import EnvError, EpisodeError
from kernel_rllib.spaces.nested import Struct

MOST_CALLS = 10_000
"""So many calls may wait for the sampler; threads that make more wait with them."""


@dataclass(frozen=True)
class EpisodeStarted:
    """An episode begins; `learns` says whether its steps are learned from."""

    episode_id: str
    learns: bool


class Answer:
    """What one thread waits for, and another one gives once. A future can do more, and takes longer than an action."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self._given = threading.Lock()
        self._given.acquire()
        self._is_given = False
        self._result: Mapping[Any, Any] = {}
        self._error: Exception | None = None

    def done(self) -> bool:
        """Return whether it was given."""
        return self._is_given

    def set_result(self, result: Mapping[Any, Any]) -> None:
        """Let who waits have this."""
        self._result, self._is_given = result, True
        self._given.release()

    def set_exception(self, error: Exception) -> None:
        """Let this be raised where an answer is waited for."""
        self._error, self._is_given = error, True
        self._given.release()

    def result(self) -> Mapping[Any, Any]:
        """Wait in one thread for the answer, and return it."""
        self._given.acquire()
        self._given.release()
        if self._error is not None:
            raise self._error
        return self._result


@dataclass(frozen=True)
class ActionsWanted:
    """Agents see this, and are to act: `actions` takes what they do."""

    episode_id: str
    seen: Mapping[Any, Struct]
    actions: Answer = field(default_factory=Answer)


@dataclass(frozen=True)
class ActionsTaken:
    """Agents have seen this and done that, whatever their policies would have done.

    `outputs`: by agent, what the module put out that chose the action elsewhere; None: no module of theirs did.
    """

    episode_id: str
    seen: Mapping[Any, Struct]
    actions: Mapping[Any, Struct]
    outputs: Mapping[Any, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Rewarded:
    """Agents were given rewards."""

    episode_id: str
    rewards: Mapping[Any, float]
    infos: Mapping[Any, Any]


@dataclass(frozen=True)
class EpisodeEnded:
    """An episode is over; agents see this last."""

    episode_id: str
    seen: Mapping[Any, Struct]


@dataclass(frozen=True)
class EpisodeAbandoned:
    """An episode is abandoned: its last step counts as not made."""

    episode_id: str


Call: TypeAlias = EpisodeStarted | ActionsWanted | ActionsTaken | Rewarded | EpisodeEnded | EpisodeAbandoned


class EpisodeCalls:
    """Takes calls of any thread, and gives them to one."""

    def __init__(self, name: str, most_episodes: int, most_calls: int = MOST_CALLS) -> None:
        """Begin without episodes.

        Args:
            name: The name of the environment in messages.
            most_episodes: The largest number of episodes that are open at a time.
            most_calls: The largest number of calls that wait to be taken.
        """
        self._name, self._most_episodes, self._most_calls = name, most_episodes, most_calls
        self._changed = threading.Condition()
        self._calls: deque[Call] = deque()
        self._open: dict[str, bool] = {}
        """The episodes that are open, and whether a thread waits for an action in each."""
        self._refused: dict[str, EnvError] = {}
        """What is raised by the next call of an episode that was refused; of the last ones."""
        self._error: EnvError | None = None

    @property
    def open_episodes(self) -> int:
        """The number of open episodes."""
        return len(self._open)

    # -- the program --------------------------------------------------------------------------------------------------

    def start(self, episode_id: str, learns: bool) -> None:
        """Open an episode.

        Raises:
            EpisodeError: If it is open already, or too many are.
        """
        with self._changed:
            self._require_going()
            if episode_id in self._open:
                raise EpisodeError(
                    f"{self._name}: the episode {episode_id!r} is open already: end it first, or give another id"
                )
            if len(self._open) >= self._most_episodes:
                raise EpisodeError(
                    f"{self._name}: {len(self._open)} episodes are open, and max_concurrent={self._most_episodes} "
                    "allows no more: end some first, or allow more"
                )
            self._open[episode_id] = False
            self._refused.pop(episode_id, None)
            self._put(EpisodeStarted(episode_id, learns))

    def wait_for_actions(self, episode_id: str, seen: Mapping[Any, Struct]) -> Mapping[Any, Any]:
        """Show agents what they see, wait, and return their actions.

        Raises:
            EpisodeError: If the episode is not open, or another thread waits in it.
            EnvError: If nothing is sampled any more.
        """
        call = ActionsWanted(episode_id, seen)
        with self._changed:
            self._require_open(episode_id)
            self._open[episode_id] = True
            self._put(call)
        try:
            return call.actions.result()
        finally:
            with self._changed:
                if episode_id in self._open:
                    self._open[episode_id] = False

    def log_actions(self, call: ActionsTaken) -> None:
        """Note what agents have seen and done. Raises EpisodeError as `wait_for_actions` does."""
        with self._changed:
            self._require_open(call.episode_id)
            self._put(call)

    def reward(self, episode_id: str, rewards: Mapping[Any, float], infos: Mapping[Any, Any]) -> None:
        """Note rewards. Raises EpisodeError as `wait_for_actions` does."""
        with self._changed:
            self._require_open(episode_id)
            self._put(Rewarded(episode_id, rewards, infos))

    def end(self, episode_id: str, seen: Mapping[Any, Struct]) -> None:
        """Close an episode. Raises EpisodeError as `wait_for_actions` does."""
        with self._changed:
            self._require_open(episode_id)
            del self._open[episode_id]
            self._put(EpisodeEnded(episode_id, seen))

    def abandon(self, episode_id: str) -> None:
        """Close an abandoned episode; one that is not open, or has a thread waiting, is left alone."""
        with self._changed:
            if self._error is None and self._open.get(episode_id) is False:
                del self._open[episode_id]
                self._put(EpisodeAbandoned(episode_id))

    # -- the sampler --------------------------------------------------------------------------------------------------

    def take(self, seconds: float) -> list[Call]:
        """Return the calls that were not taken yet, in order; wait for one for at most so long.

        Raises:
            EnvError: What `fail` was given, once no call is left.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._error, seconds)
            if self._error is not None and not self._calls:
                raise self._error
            taken = list(self._calls)
            self._calls.clear()
            self._changed.notify_all()
        return taken

    def refuse(self, refused: ActionsWanted | ActionsTaken, error: EnvError, taken: Iterable[Call]) -> Iterable[Call]:
        """Close an episode of which a call can't be followed: who waits gets an error, or else who calls for it next.

        Args:
            refused: The call.
            error: The error that is raised.
            taken: The calls that were taken after that one.

        Returns:
            Those of `taken` that are to be followed: the episode's own are not.
        """
        episode_id = refused.episode_id
        with self._changed:
            dropped, kept, is_over = _split(taken, episode_id)
            if not is_over:
                untaken, self._calls, is_over = _split(self._calls, episode_id)
                dropped += untaken
            if not is_over:
                self._open.pop(episode_id, None)
            waiting = [call for call in (refused, *dropped) if isinstance(call, ActionsWanted)]
            if not waiting and not is_over:
                while len(self._refused) >= self._most_episodes:
                    del self._refused[next(iter(self._refused))]
                self._refused[episode_id] = error
            self._changed.notify_all()
        for call in waiting:
            call.actions.set_exception(_another(error))
        return kept

    def fail(self, error: EnvError) -> None:
        """Let every thread that waits, or calls from now on, get an error; a second one changes nothing.

        Calls for which no thread waits are still taken.
        """
        with self._changed:
            if self._error is not None:
                return
            self._error = error
            waiting = [call for call in self._calls if isinstance(call, ActionsWanted)]
            self._calls = deque(call for call in self._calls if not isinstance(call, ActionsWanted))
            self._changed.notify_all()
        for call in waiting:
            call.actions.set_exception(_another(self._error))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _put(self, call: Call) -> None:
        self._changed.wait_for(lambda: len(self._calls) < self._most_calls or self._error is not None)
        self._require_going()
        self._calls.append(call)
        self._changed.notify_all()

    def _require_open(self, episode_id: str) -> None:
        self._require_going()
        if episode_id in self._refused:
            raise self._refused.pop(episode_id)
        if episode_id not in self._open:
            raise EpisodeError(
                f"{self._name}: no episode {episode_id!r} is open: begin it by start_episode(), and call nothing for "
                "it after end_episode()"
            )
        if self._open[episode_id]:
            raise EpisodeError(
                f"{self._name}: a thread waits for an action in the episode {episode_id!r}, and another one called for "
                "it: an episode goes on in one thread at a time"
            )

    def _require_going(self) -> None:
        if self._error is not None:
            raise _another(self._error)


def _another(error: EnvError) -> EnvError:
    """Return an error of its own for a thread, as an error that several raise grows their tracebacks."""
    raised = type(error)(str(error))
    raised.__cause__ = error
    return raised


def _split(calls: Iterable[Call], episode_id: str) -> tuple[list[Call], deque[Call], bool]:
    """Return the calls of an episode up to its end, all others, and whether that end is there."""
    own: list[Call] = []
    others: deque[Call] = deque()
    is_over = False
    for call in calls:
        if is_over or call.episode_id != episode_id:
            others.append(call)
        else:
            own.append(call)
            is_over = isinstance(call, EpisodeEnded | EpisodeAbandoned)
    return own, others, is_over
