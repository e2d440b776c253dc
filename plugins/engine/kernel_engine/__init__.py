"""What engines are made of: objects and their owners, tasks, values as bytes, and errors that travel.

Nothing here opens a socket, starts a process or decides where a task runs. What it needs of its surroundings is in
`surroundings`; `kernel_processes` brings them with many processes, `kernel_local_mode` with one.
"""
