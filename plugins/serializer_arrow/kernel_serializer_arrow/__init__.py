"""Arrow tables and pandas frames between processes: no copy where there need be none, and no more than is seen.

`tables.py` is for Arrow's own types, `frames.py` for pandas, `plugin.py` offers them to the kernel.
"""
