"""Chapter "Tensors are views": the exercises E1.1 to E1.4, in order."""

from autograder.verdicts.views.layouts import predict_view
from autograder.verdicts.views.patches import patchify
from autograder.verdicts.views.storages import compact
from autograder.verdicts.views.token_order import to_tokens

__all__ = ["predict_view", "patchify", "compact", "to_tokens"]
