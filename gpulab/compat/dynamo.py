"""Dynamo: what it has compiled, why it broke a graph, why it compiled again. A second or more to import."""

import torch._dynamo
from torch._dynamo import config as config
from torch._dynamo import convert_frame, guards, trace_rules
from torch._dynamo import reset as reset
from torch._dynamo.exc import TorchDynamoException as TorchDynamoException
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import counters as counters

from gpulab.compat.places import Place

LOGGER = torch._dynamo.__name__
LOG_GRAPH_BREAK = Place(InstructionTranslatorBase, "log_graph_break")
RECOMPILATION_REASONS = Place(convert_frame, "get_and_maybe_log_recompilation_reasons")
PROFILE_GUARDS = Place(guards, "profile_guard_manager")
forget_names = trace_rules.clear_lru_cache
"""Forget which functions are PyTorch's own."""
