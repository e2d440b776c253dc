"""The commands that start, end and query sessions. The kernel's table of commands refers to them."""
