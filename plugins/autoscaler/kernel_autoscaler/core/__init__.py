"""What an autoscaler decides: pure state machines, without I/O, clocks, threads or random numbers."""
