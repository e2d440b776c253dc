"""Learners: parameters, the losses' gradients by a back end, and the optimizers' steps."""
