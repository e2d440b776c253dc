"""Batches: callers pass one argument each, and the handler gets lists of them.

`queue.py` decides when a batch goes and which requests are in it, `batcher.py` runs it on asyncio, `decorator.py` has
`@serve.batch`.
"""
