"""The settings of a league: `league_builder_config` of AlphaStar, under RLlib's names, and a few of the paper's."""

from __future__ import annotations

from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.settings_dict import DictSettings
from kernel_rllib.league.league import LeagueSettings
from kernel_rllib.league.prioritising import Weighting

LEAGUE_BUILDER = "AlphaStarLeagueBuilder"
"""RLlib's name of the league that there is."""


class LeagueConfig(DictSettings):
    """Which players a league has, who plays against whom, and when a copy of one is kept."""

    type = Field[Any](LEAGUE_BUILDER, "Which league there is: this is the only one.")
    num_random_policies = Field(2, "How many players do anything: an even number.", range=(0, None))
    num_learning_league_exploiters = Field(4, "How many learn to beat all that was kept.", range=(0, None))
    num_learning_main_exploiters = Field(4, "How many learn to beat the main player.", range=(0, None))
    win_rate_threshold_for_new_snapshot = Field(0.9, "The share of won matches at which a copy is kept.", range=(0, 1))
    min_matches_for_new_snapshot = Field(20, "Of how many matches at least that share is.", range=(1, None))
    max_matches_for_new_snapshot = Field[int | None](
        None, "After how many matches a copy is kept anyway; None for never.", range=(1, None)
    )
    keep_new_snapshot_training_prob = Field(0.0, "How likely the copy of an exploiter learns on.", range=(0, 1))
    prob_league_exploiter_match = Field(0.33, "How likely a match is one of a league exploiter.", range=(0, 1))
    prob_main_exploiter_match = Field(0.33, "How likely a match is one of a main exploiter.", range=(0, 1))
    prob_main_exploiter_playing_against_learning_main = Field(
        0.5, "How likely a main exploiter meets the main player itself, and no copy.", range=(0, 1)
    )
    prob_main_playing_against_past = Field(0.5, "How likely the main player meets a copy, not itself.", range=(0, 1))
    prob_reset_league_exploiter = Field(0.0, "How likely a league exploiter begins anew once kept.", range=(0, 1))
    prob_reset_main_exploiter = Field(0.0, "How likely a main exploiter begins anew once kept.", range=(0, 1))
    pfsp_weighting = Field[Weighting]("squared", "How opponents are weighted by the probability to win against them.")

    def rules(self) -> LeagueSettings:
        """Return the rules that these are."""
        return LeagueSettings(
            random_policies=self.num_random_policies,
            league_exploiters=self.num_learning_league_exploiters,
            main_exploiters=self.num_learning_main_exploiters,
            win_rate_threshold=self.win_rate_threshold_for_new_snapshot,
            least_matches=self.min_matches_for_new_snapshot,
            most_matches=self.max_matches_for_new_snapshot,
            keep_training=self.keep_new_snapshot_training_prob,
            league_exploiter_match=self.prob_league_exploiter_match,
            main_exploiter_match=self.prob_main_exploiter_match,
            against_learning_main=self.prob_main_exploiter_playing_against_learning_main,
            main_against_past=self.prob_main_playing_against_past,
            reset_league_exploiter=self.prob_reset_league_exploiter,
            reset_main_exploiter=self.prob_reset_main_exploiter,
            weighting=self.pfsp_weighting,
        )
