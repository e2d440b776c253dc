"""Files that describe clusters, read into a `ClusterPlan`: kernel's own, and those of Ray."""
