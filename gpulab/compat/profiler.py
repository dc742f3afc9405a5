"""``torch.profiler`` between its Python and its C++."""

import torch
import torch.autograd.profiler as frontend

from gpulab.compat.places import Place

SUPPORTED_ACTIVITIES = (Place(frontend, "_supported_activities"), Place(torch.autograd, "_supported_activities"))
PREPARE = Place(frontend, "_prepare_profiler")
ENABLE = Place(frontend, "_enable_profiler")
DISABLE = Place(frontend, "_disable_profiler")
TOGGLE = Place(frontend, "_toggle_collection_dynamic")
ADD_METADATA = Place(torch.autograd, "_add_metadata_json")
is_recording = torch.autograd._profiler_enabled
