"""The configuration file: read with precise errors, written, compared, and turned into what is to run."""
