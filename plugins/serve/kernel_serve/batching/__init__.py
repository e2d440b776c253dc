"""Requests that are answered together: callers pass one argument each, the handler gets lists of them.

`queue.py` decides when a batch goes and with whom, `batcher.py` runs it on asyncio, `decorator.py` is `@serve.batch`.
"""
