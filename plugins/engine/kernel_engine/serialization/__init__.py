"""Values as bytes: the default serializer, what it lets out of a process, and what can't leave and why."""
