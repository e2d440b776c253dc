"""The commands for those who write plugins: `kernel plugins check` and `kernel plugins new`."""
