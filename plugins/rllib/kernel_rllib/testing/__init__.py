"""What tests of this library share, and what tests of environments, networks and losses written elsewhere may use."""
