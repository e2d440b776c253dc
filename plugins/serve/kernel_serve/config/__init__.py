"""The configuration file: read it with precise errors, write it, compare it, and deploy it."""
