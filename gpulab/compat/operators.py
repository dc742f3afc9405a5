"""Operators without a public function, which ``evidence`` measures on a GPU."""

import torch

foreach_copy_ = torch._foreach_copy_
scaled_mm = torch._scaled_mm
convert_weight_to_int4pack = torch._convert_weight_to_int4pack
weight_int4pack_mm = torch._weight_int4pack_mm
