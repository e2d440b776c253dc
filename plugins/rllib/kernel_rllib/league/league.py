"""The league as a pure state machine: results of matches go in; who is kept, begins anew, and plays whom comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kernel_rllib.league.prioritising import Weighting, opponent_weights

MAIN, LEAGUE_EXPLOITER, MAIN_EXPLOITER = "main", "league_exploiter", "main_exploiter"
_DECAY = 0.99
"""How much of what is known of a pairing is left after each further match of it, as in the paper's program."""


class Match(NamedTuple):
    """One match that is over.

    Attributes:
        one: A player.
        other: Its opponent.
        outcome: 1 if `one` has won, 0.5 for a draw, 0 if it has lost.
    """

    one: str
    other: str
    outcome: float


class Snapshot(NamedTuple):
    """Keep a copy of a player as it is now, under a new name; it learns on where `learns`."""

    player: str
    copy: str
    learns: bool


class Reset(NamedTuple):
    """Let a player begin anew, as it was at the very first."""

    player: str


Instruction = Snapshot | Reset


@dataclass(frozen=True)
class LeagueSettings:
    """The rules of a league; those that RLlib has are called as there.

    Attributes:
        random_policies: How many players do anything; half of them are exploiters of each kind.
        league_exploiters: How many learn to beat all that was kept.
        main_exploiters: How many learn to beat the main player.
        win_rate_threshold: The share of its matches that a player has won when a copy of it is kept.
        least_matches: How many matches since its last copy that share is of at least.
        most_matches: After how many matches a copy is kept anyway; None for never.
        keep_training: How likely the copy of an exploiter learns on.
        league_exploiter_match: How likely a match is one of a league exploiter, against any copy.
        main_exploiter_match: How likely it is one of a main exploiter, against the main player or a copy of it. All
            others are of the main player.
        against_learning_main: How likely a main exploiter meets the main player that learns, and no copy.
        main_against_past: How likely the main player meets a copy of any player, and not itself.
        reset_league_exploiter: How likely a league exploiter begins anew when a copy of it is kept.
        reset_main_exploiter: The same of a main exploiter.
        weighting: How opponents are weighted by the probability to win against them.
    """

    random_policies: int = 2
    league_exploiters: int = 4
    main_exploiters: int = 4
    win_rate_threshold: float = 0.9
    least_matches: int = 20
    most_matches: int | None = None
    keep_training: float = 0.0
    league_exploiter_match: float = 0.33
    main_exploiter_match: float = 0.33
    against_learning_main: float = 0.5
    main_against_past: float = 0.5
    reset_league_exploiter: float = 0.0
    reset_main_exploiter: float = 0.0
    weighting: Weighting = "squared"


@dataclass
class _Pairing:
    """What is known of the matches of two players, the newer ones more."""

    won: float = 0.0
    games: float = 0.0

    def add(self, outcome: float) -> None:
        self.won, self.games = _DECAY * self.won + outcome, _DECAY * self.games + 1

    @property
    def win_rate(self) -> float:
        return self.won / self.games if self.games else 0.5


@dataclass
class _Player:
    learns: bool
    won: float = 0.0
    matches: int = 0

    @property
    def win_rate(self) -> float:
        return self.won / self.matches if self.matches else 0.0


@dataclass
class League:
    """The players of a league, and what is known of their matches."""

    settings: LeagueSettings
    players: dict[str, _Player] = field(default_factory=dict)
    pairings: dict[tuple[str, str], _Pairing] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    """How many players of each kind there have been."""

    @classmethod
    def begin(cls, settings: LeagueSettings) -> League:
        """Return a league with its first players: one main player, exploiters, and those that do anything."""
        league = cls(settings)
        for kind, learning, randoms in (
            (MAIN, 1, 0),
            (LEAGUE_EXPLOITER, settings.league_exploiters, settings.random_policies // 2),
            (MAIN_EXPLOITER, settings.main_exploiters, settings.random_policies // 2),
        ):
            for number in range(randoms + learning):
                league.players[f"{kind}_{number}"] = _Player(learns=number >= randoms)
            league.made[kind] = randoms + learning
        return league

    def learning(self, kind: str = "") -> list[str]:
        """Return the players that learn, of a kind or of all."""
        return [name for name, player in self.players.items() if player.learns and name.startswith(kind)]

    def kept(self, kind: str = "") -> list[str]:
        """Return the players that do not learn: copies, and those that do anything."""
        return [name for name, player in self.players.items() if not player.learns and name.startswith(kind)]

    def win_rate(self, one: str, other: str) -> float:
        """Return the share of matches that a player has won against another; 0.5 where they never met."""
        pairing = self.pairings.get((one, other))
        return pairing.win_rate if pairing else 0.5

    def take_in(self, matches: Sequence[Match], stream: np.random.Generator) -> list[Instruction]:
        """Count matches, and return what is to be done now, in order. The league has it done already for itself.

        Args:
            matches: Those that ended. Matches of a player against itself say nothing.
            stream: What decides where the rules leave it to chance.
        """
        for one, other, outcome in matches:
            if one == other or one not in self.players or other not in self.players:
                continue
            for player, opponent, result in ((one, other, outcome), (other, one, 1.0 - outcome)):
                self.pairings.setdefault((player, opponent), _Pairing()).add(result)
                self.players[player].won += result
                self.players[player].matches += 1
        instructions: list[Instruction] = []
        for name in self.learning():
            if self._is_due(self.players[name]):
                instructions += self._keep(name, stream)
        return instructions

    def draw_match(self, stream: np.random.Generator) -> tuple[str, str]:
        """Return who plays in one match: a player that learns, and its opponent."""
        rules = self.settings
        kinds = [LEAGUE_EXPLOITER, MAIN_EXPLOITER, MAIN]
        shares = [rules.league_exploiter_match, rules.main_exploiter_match]
        kind = kinds[int(np.searchsorted(np.cumsum(shares), stream.random(), side="right"))]
        choice = stream.random(3)
        if kind == LEAGUE_EXPLOITER and self.learning(kind) and self.kept():
            player = _one_of(self.learning(kind), choice[0])
            return player, self._opponent(player, self.kept(), choice[1])
        if kind == MAIN_EXPLOITER and self.learning(kind):
            player, past = _one_of(self.learning(kind), choice[0]), self.kept(f"{MAIN}_")
            past = [name for name in past if not name.startswith(MAIN_EXPLOITER)]
            if not past or choice[2] < rules.against_learning_main:
                return player, f"{MAIN}_0"
            return player, self._opponent(player, past, choice[1])
        main = f"{MAIN}_0"
        if self.kept() and choice[2] < rules.main_against_past:
            return main, self._opponent(main, self.kept(), choice[1])
        return main, main

    def state(self) -> dict[str, Any]:
        """Return all of it, as plain values."""
        return {
            "players": {name: [player.learns, player.won, player.matches] for name, player in self.players.items()},
            "pairings": [[one, other, pair.won, pair.games] for (one, other), pair in self.pairings.items()],
            "made": dict(self.made),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.players = {name: _Player(bool(a), float(b), int(c)) for name, (a, b, c) in state["players"].items()}
        self.pairings = {(one, other): _Pairing(float(a), float(b)) for one, other, a, b in state["pairings"]}
        self.made = {kind: int(count) for kind, count in state["made"].items()}

    def _is_due(self, player: _Player) -> bool:
        rules = self.settings
        has_won = player.matches >= rules.least_matches and player.win_rate >= rules.win_rate_threshold
        return has_won or (rules.most_matches is not None and player.matches >= rules.most_matches)

    def _keep(self, name: str, stream: np.random.Generator) -> list[Instruction]:
        rules, kind, choice = self.settings, name.rpartition("_")[0], stream.random(2)
        copy = f"{kind}_{self.made[kind]}"
        self.made[kind] += 1
        learns = kind != MAIN and bool(choice[0] < rules.keep_training)
        self.players[copy] = _Player(learns)
        for (one, other), pairing in list(self.pairings.items()):  # A copy is as strong as the original.
            if one == name:
                self.pairings[copy, other] = _Pairing(pairing.won, pairing.games)
            elif other == name:
                self.pairings[one, copy] = _Pairing(pairing.won, pairing.games)
        self.players[name].won, self.players[name].matches = 0.0, 0
        found: list[Instruction] = [Snapshot(name, copy, learns)]
        resets = {LEAGUE_EXPLOITER: rules.reset_league_exploiter, MAIN_EXPLOITER: rules.reset_main_exploiter}
        if choice[1] < resets.get(kind, 0.0):
            found.append(Reset(name))
            self.pairings = {pair: known for pair, known in self.pairings.items() if name not in pair}
        return found

    def _opponent(self, player: str, opponents: Sequence[str], number: float) -> str:
        weights = opponent_weights([self.win_rate(player, name) for name in opponents], self.settings.weighting)
        place = int(np.searchsorted(np.cumsum(weights), number, side="right"))
        return opponents[min(place, len(opponents) - 1)]


def _one_of(names: Sequence[str], number: float) -> str:
    return names[min(int(number * len(names)), len(names) - 1)]
