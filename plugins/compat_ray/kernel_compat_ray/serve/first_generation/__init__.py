"""The first generation of the API: endpoints are ways in, backends are what answers, and traffic connects them.

Both run on the same controller as everything else. A backend is an application without a route, with one deployment;
an endpoint is an `Endpoint`. `backends.py` and `endpoints.py` are what users call, `replica.py` runs the user's code.
"""
