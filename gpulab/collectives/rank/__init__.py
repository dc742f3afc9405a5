"""A rank's own side: its process, its process groups, and what of PyTorch is told of them."""
