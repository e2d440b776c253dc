"""A scheduler that serves the highest `priority` hint first: `scheduler` decides, `plugin` offers it to the kernel."""
