"""The heart of a serving engine, with four places for a part of your own.

>>> from gpulab.serving import Budget, Chunked, Paged, Roofline, poisson, serve
>>> clock = Roofline("A100", "Llama 2 7B")
>>> trace = poisson(200, per_s=8, prompt=(50, 1500), writes=(1, 400), most=512, seed=1)
>>> report = serve(trace, Chunked(), Paged(clock.slots // 16, size=16), clock, budget=Budget(tokens=512))
>>> print(report.table())  # doctest: +SKIP

A :class:`Request` arrives, waits, runs and leaves. In every step the *scheduler* plans how many tokens of which requests
are computed; it reserves their room in the KV cache with the *block allocator*; the *clock* says how long the step takes
or the *model* computes it; a request whose tokens are all computed gets its next token. There is no phase of prefill and
none of decoding: a request has ``tokens`` (prompt and output), of which ``computed`` have keys and values, and steps hand
out tokens until the second has caught up with the first. A prompt in chunks, a prompt at once and a single new token are
the same case. vLLM's scheduler says it this way (vLLM 0.33.0, ``vllm/v1/core/sched/scheduler.py``, ``schedule()``).

| part | is asked | at hand |
| --- | --- | --- |
| :class:`Scheduler` | ``plan(waiting, running, blocks, budget) -> Plan`` | ``Static``, ``Continuous``, ``Chunked`` |
| :class:`Blocks` | ``reserve(live, tokens) -> bool``, ``release(live)``, ``table(live)`` | ``Contiguous``, ``Paged`` |
| :class:`Clock` | ``step_us(work) -> float`` | ``Roofline``: a card and a published model, no tensors; ``Linear``: three numbers |
| :class:`Model` | ``step(work) -> token ids`` | ``Decoder``: TinyVLA's, with an attention and a sampler to put in |

A clock alone counts tokens; a model alone computes them and is timed; a model with a clock computes tokens at modelled
times, the same in every run. What a part may know of a request is a :class:`Live`, which it can read and not write: how
many tokens the client will really be told is not in it. The engine holds every part to the rules (:mod:`gpulab.serving.rules`)
and says in a :class:`PartError` which one was broken.

Beside the engine: :mod:`gpulab.serving.costs` counts the operations and bytes of a pass, :mod:`gpulab.serving.tokens` the tokens of
a request with images and video.

Times are microseconds since the trace began. Everything a clock says is modelled; :mod:`gpulab.serving.validation` holds
``Roofline`` to what others measured.
"""

from gpulab.serving.blocks.blocks import Blocks as Blocks
from gpulab.serving.blocks.contiguous import Contiguous as Contiguous
from gpulab.serving.blocks.paged import Paged as Paged
from gpulab.serving.clocks.clock import Clock as Clock
from gpulab.serving.clocks.clock import Work as Work
from gpulab.serving.clocks.linear import Linear as Linear
from gpulab.serving.clocks.roofline import Roofline as Roofline
from gpulab.serving.engine import Engine as Engine
from gpulab.serving.engine import serve as serve
from gpulab.serving.model.decoder import Decoder as Decoder
from gpulab.serving.model.model import Model as Model
from gpulab.serving.plan import Budget as Budget
from gpulab.serving.plan import Plan as Plan
from gpulab.serving.plan import Scheduler as Scheduler
from gpulab.serving.report import Report as Report
from gpulab.serving.requests import Live as Live
from gpulab.serving.requests import Request as Request
from gpulab.serving.rules import PartError as PartError
from gpulab.serving.schedulers.chunked import Chunked as Chunked
from gpulab.serving.schedulers.continuous import Continuous as Continuous
from gpulab.serving.schedulers.static import Static as Static
from gpulab.serving.table import compare as compare
from gpulab.serving.traces.drawn import bursty as bursty
from gpulab.serving.traces.drawn import long_among_short as long_among_short
from gpulab.serving.traces.drawn import poisson as poisson
from gpulab.serving.traces.drawn import robots as robots
from gpulab.serving.traces.drawn import shared_prefixes as shared_prefixes
from gpulab.serving.traces.recorded import azure as azure
from gpulab.serving.traces.recorded import mooncake as mooncake
