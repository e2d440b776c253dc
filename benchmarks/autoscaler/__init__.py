"""The autoscaler measured: its decisions, how soon it orders, and how it stands failures."""
