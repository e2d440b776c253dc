"""The part of the runtime that only workers have: it executes tasks and actor calls of other processes."""
