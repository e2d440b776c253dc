"""Keep submitted tasks until they end, send their arguments, run one call, and record past calls."""
