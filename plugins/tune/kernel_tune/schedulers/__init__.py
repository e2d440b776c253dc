"""Trial schedulers: after each result they say whether a trial goes on. All state machines."""
