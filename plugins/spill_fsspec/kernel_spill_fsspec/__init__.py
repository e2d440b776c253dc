"""Spilled objects at any URL that fsspec can write to: S3 and what speaks its language, other clouds, other disks.

`target` is the contract, `steps` limits calls in time and repeats them, `problems` says what errors mean; `plugin`
offers it to the kernel.
"""
