"""Files and directories: what is copied of them, their digests, and the tar streams in which they travel."""
