"""Many models behind one deployment: a replica loads those that are asked for, and keeps the ones used last.

`table.py` decides what is loaded and unloaded, `cache.py` does it on asyncio, `decorator.py` has `@serve.multiplexed`.
"""
