"""Whether ``torch.compile`` would compile anything. Imports nothing: Dynamo takes a second."""

import os
import sys


def is_off() -> bool:
    """Whether the environment makes ``torch.compile`` give back the very function that it gets."""
    return os.environ.get("TORCHDYNAMO_DISABLE", "") == "1"


def runs_eagerly() -> bool:
    """Whether a compiled function, called now, runs as it was written: by its configuration or by ``set_stance``."""
    config, frame = sys.modules.get("torch._dynamo.config"), sys.modules.get("torch._dynamo.eval_frame")
    if config is None and os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1":
        return True
    return config is not None and config.disable or frame is not None and frame._stance.stance == "force_eager"
