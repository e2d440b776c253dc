"""Metadata in a Redis server, which outlives the head and its machine.

`store` is the table, `scripts` what runs inside Redis, `link` the connection with its patience, `address` where Redis
is and how to log in, `inspection` what can be relied on there, `problems` what errors mean; `plugin` offers it to the
kernel.
"""
