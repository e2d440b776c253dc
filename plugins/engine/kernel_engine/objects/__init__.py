"""Objects: their owners and borrowers, the places of their values, reading them and waiting for them."""
