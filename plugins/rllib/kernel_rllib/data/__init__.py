"""Data: what runners collect, as blocks of columns, and the views of it that losses and users read."""
