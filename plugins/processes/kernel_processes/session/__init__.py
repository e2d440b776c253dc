"""A session of many processes, as a program sees it: started or joined, from the same machine or from another."""
