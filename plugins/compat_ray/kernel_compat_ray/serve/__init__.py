"""Names that programs of Ray Serve, of all its generations, have besides `kernel.serve`."""
