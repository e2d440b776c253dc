"""The parts that engines are made of: objects and their owners, tasks, values as bytes, and errors that travel.

Nothing here opens a socket, starts a process or decides where a task runs. `surroundings` defines what the parts need
for that; `kernel_processes` provides it with many processes, `kernel_local_mode` with one. `terminal_text` makes text
safe to show.
"""
