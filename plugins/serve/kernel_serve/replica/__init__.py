"""A replica: one process with one object of the user's, that takes calls and HTTP requests from routers.

`request_intake.py` admits requests (`gate.py` decides), `calls.py` and `http_calls.py` carry them out on
`user_code.py`.
"""
