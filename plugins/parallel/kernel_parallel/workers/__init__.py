"""Worker processes that many calls take turns on: what the pool, the executor and the joblib backend are made of.

`schedule` decides who works on what, `worker` is what runs in the processes, `dispatcher` moves calls and results.
"""
