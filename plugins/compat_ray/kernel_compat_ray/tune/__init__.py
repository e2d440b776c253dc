"""Names that programs of Ray Tune, of all its generations, have besides `kernel.tune`."""
