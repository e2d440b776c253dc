"""Array operations, gradients and optimizers.

Losses and networks are written once against the operations of `ops.py`, and run in numpy or in torch.
"""
