"""``torch.save`` and ``torch.load``: whose storages they are."""

import torch

storage_registry = torch.serialization._package_registry
"""``(priority, tag, restore)``, lowest priority first."""
