"""Transfer large objects from store to store, in chunks, and in a tree where many nodes want one.

`service.py` is the interface; `plan.py`, `upload_table.py` and `pull_queue.py` decide, the others carry out.
"""
