"""Objects, streams and calls for engines that run everything in the program's own process, in threads of it.

An engine inherits `OneProcessObjects` and `OneProcessStreams`, makes a `Call` of whatever is submitted, and decides
when and in which thread it runs.
"""
