"""Casts of episodes: an episode keeps its policies and its mapping until it is over, whatever changes meanwhile.

Policies that are no longer there act on in the episodes that began with them, by the parameters that they had last.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import cloudpickle

from kernel_rllib.errors import EnvError
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.multi_agent_episode import MultiAgentEpisode
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint, ScriptedLanes

Lanes: TypeAlias = AgentLanes | ScriptedLanes
PolicyOf: TypeAlias = Callable[[Any, MultiAgentEpisode, Any], Any]


def make_lanes(policy_id: str, policy: PolicyBlueprint | ScriptedBlueprint, place: RunnerPlace, seed: int) -> Lanes:
    """Return the lanes of a policy for the runner of a place, in a run with this seed."""
    if isinstance(policy, ScriptedBlueprint):
        return ScriptedLanes(policy_id, policy, seed)
    return AgentLanes(policy_id, policy, place, seed)


@dataclass(frozen=True, eq=False)
class Cast:
    """The policies that act in an episode.

    Attributes:
        modules: The lanes of each module, by its id.
        policy_of: Returns the policy of an agent, given the agent, its episode and the context of the runner.
    """

    modules: Mapping[str, Lanes]
    policy_of: PolicyOf


class Casts:
    """The casts of the episodes that go on in one runner, one for each copy of the environment."""

    def __init__(self, current: Cast, copies: int) -> None:
        """Begin with one cast in all copies."""
        self.current = current
        """The cast of episodes that begin now."""
        self._of = [current] * copies
        self._former: list[tuple[str, Lanes]] = []

    def __getitem__(self, place: int) -> Cast:
        """Return the cast of the episode that goes on in a copy."""
        return self._of[place]

    def __setitem__(self, place: int, cast: Cast) -> None:
        """Let an episode with this cast go on in a copy."""
        before, self._of[place] = self._of[place], cast
        if before is not cast:
            self._find_former()

    def begin(self, place: int) -> None:
        """Let an episode begin in a copy."""
        self[place] = self.current

    def begin_all(self) -> None:
        """Let an episode begin in each copy."""
        self._of = [self.current] * len(self._of)
        self._former = []

    def change(self, current: Cast) -> None:
        """Let this be the cast of episodes that begin from now on."""
        self.current = current
        self._find_former()

    @property
    def former(self) -> list[tuple[str, Lanes]]:
        """The modules, with their ids, that act only in episodes that began before."""
        return list(self._former)

    def acting(self) -> Iterator[Lanes]:
        """Iterate over all lanes that act: those of new episodes, then the others."""
        yield from self.current.modules.values()
        for _, lanes in self._former:
            yield lanes

    def ordered(self, place: int, actions: dict[Any, Any], policies: Mapping[Any, str]) -> dict[Any, Any]:
        """Return the actions of a copy in the order of its cast's modules, whatever other modules the runner has."""
        if not self._former:
            return actions
        order = list(self._of[place].modules)
        return dict(sorted(actions.items(), key=lambda item: order.index(policies[item[0]])))

    def _find_former(self) -> None:
        current = {id(lanes) for lanes in self.current.modules.values()}
        found: dict[int, tuple[str, Lanes]] = {}
        for cast in self._of:
            if cast is not self.current:
                found |= {id(lanes): (name, lanes) for name, lanes in cast.modules.items() if id(lanes) not in current}
        self._former = list(found.values())

    # -- going on elsewhere -------------------------------------------------------------------------------------------

    def state_of(self, place: int, copy: int, pieces: MutableMapping[str, bytes]) -> dict[str, Any]:
        """Return what an episode needs of its cast to go on elsewhere; nothing, where that is the current one.

        Args:
            place: The position of its copy.
            copy: The number of that copy.
            pieces: Takes in what several copies have in common, by names that say what it is.

        Raises:
            EnvError: If the mapping or a policy can't be pickled.
        """
        cast, current = self._of[place], self.current.modules
        if cast is self.current:
            return {}
        gone = {name: lanes for name, lanes in cast.modules.items() if current.get(name) is not lanes}
        return {
            "cast": {
                "policy_of": _kept(cast.policy_of, "its policy_mapping_fn", pieces),
                "modules": {name: _kept_lanes(name, gone.get(name), pieces) for name in cast.modules},
            },
            "former": {
                name: {str(slot): lanes.lane_state(position) for slot, position in lanes.of_copy(copy).items()}
                for name, lanes in gone.items()
            },
        }

    def restored(
        self,
        state: Mapping[str, Any],
        pieces: Mapping[str, bytes],
        make: Callable[[str, Any], Lanes],
        made: MutableMapping[str, Any],
    ) -> Cast | None:
        """Return the cast of an episode that goes on here; None where a policy of it is not there.

        Args:
            state: The state that `state_of` returned.
            pieces: The pickled pieces that `state_of` has added, by name.
            make: Makes lanes, given the id of a policy and its blueprint.
            made: The objects that were made of pieces before, by name; copies share them.
        """
        kept = state.get("cast")
        if kept is None:
            return self.current
        modules: dict[str, Lanes] = {}
        for name, piece in kept["modules"].items():
            if piece and piece not in made:
                made[piece] = _made_lanes(pickle.loads(pieces[piece]), make)
            found = made[piece] if piece else self.current.modules.get(name)
            if found is None:
                return None
            modules[name] = found
        if kept["policy_of"] not in made:
            made[kept["policy_of"]] = pickle.loads(pieces[kept["policy_of"]])
        return Cast(modules, made[kept["policy_of"]])


def _kept_lanes(name: str, lanes: Lanes | None, pieces: MutableMapping[str, bytes]) -> str:
    """Return the name of the piece that makes lanes again; "" for those that act in new episodes too."""
    if lanes is None:
        return ""
    acts = (lanes.vector, lanes.statistics) if isinstance(lanes, AgentLanes) else (None, {})
    return _kept((name, lanes.policy, *acts), f"its policy {name!r}, which was removed,", pieces)


def _kept(what: Any, title: str, pieces: MutableMapping[str, bytes]) -> str:
    try:
        pickled = cloudpickle.dumps(what)
    except Exception as error:
        raise EnvError(
            f"an episode can't be copied, as {title} can't be pickled: {type(error).__name__}: {error}. Let it "
            "not hold on to what can't be, or wait until the episodes that began with it are over"
        ) from error
    name = hashlib.sha256(pickled).hexdigest()
    pieces[name] = pickled
    return name


def _made_lanes(kept: tuple[str, Any, Any, Any], make: Callable[[str, Any], Lanes]) -> Lanes:
    name, policy, vector, statistics = kept
    lanes = make(name, policy)
    if isinstance(lanes, AgentLanes):
        lanes.vector[...] = vector
        lanes.set_statistics(statistics)
    return lanes
