"""For people who write schedulers: a simulated experiment, and the conformance suite that every scheduler passes."""
