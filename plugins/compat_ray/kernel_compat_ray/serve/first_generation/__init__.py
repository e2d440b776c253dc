"""The first generation of the API: endpoints take requests, backends answer them, and traffic connects both.

Both run on the same controller as everything else. A backend is an application without a route, with one deployment;
an endpoint is an `Endpoint`. `backends.py` and `endpoints.py` are what users call, `replica.py` runs the user's code.
"""
