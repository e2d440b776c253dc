"""The part that only workers have: they execute tasks and actor calls of other processes."""
