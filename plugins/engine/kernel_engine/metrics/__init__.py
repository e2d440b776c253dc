"""What engines show of themselves as metrics, read from what there is when somebody asks."""
