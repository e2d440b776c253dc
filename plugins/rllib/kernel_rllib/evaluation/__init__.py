"""Evaluation: how good the policy of now is, in environments and by settings of its own."""
