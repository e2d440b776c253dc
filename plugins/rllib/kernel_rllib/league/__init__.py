"""League play (Vinyals et al. 2019, doi:10.1038/s41586-019-1724-z): who plays against whom, and who is kept."""
