"""Progress: lines and tables of text about runs."""
