"""`rllib`, also as `kernel rllib`: training and evaluation on the command line."""
