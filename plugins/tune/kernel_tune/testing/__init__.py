"""For people who write searchers and schedulers: the suites that ours pass, and a simulated experiment."""
