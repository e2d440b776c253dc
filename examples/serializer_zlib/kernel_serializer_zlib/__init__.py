"""A serializer plugin that compresses payloads, as an example of `encode` and `decode`.

`serializer.py` does the work, `plugin.py` offers it to the kernel.
"""
