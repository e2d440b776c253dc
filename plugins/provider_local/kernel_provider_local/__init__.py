"""Hosts of your own as machines of a cluster: reached over SSH, leased from a file or from a coordinator."""
