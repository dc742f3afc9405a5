"""TinyVLA behind an HTTP endpoint of OpenAI's shape, driven by ``gpulab.serving.Engine``: ``make serve-model``.

>>> from openai import OpenAI
>>> client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
>>> for part in client.completions.create(model="tinyvla", prompt="move to the red", max_tokens=8, stream=True):
...     print(part.choices[0].text, end="")  # doctest: +SKIP

| file | says |
| --- | --- |
| ``tokenizer.py`` | words and pictures to token ids, and back |
| ``schemas.py`` | what a client may ask, and what is refused |
| ``worker.py`` | the engine, in a thread of its own |
| ``admission.py`` | a bounded queue, tokens as they come, clients that leave |
| ``responses.py`` | OpenAI's answers, whole and streamed |
| ``errors.py`` | OpenAI's errors |
| ``metrics.py`` | Prometheus' format |
| ``limits.py`` | how long and how large a request may be on its way in, and out |
| ``setup.py`` | what a server is started with |
| ``app.py`` | the endpoints |
| ``server.py`` | draining: an end that finishes what runs |
| ``plugin.py`` | a scheduler from a learner's file |
| ``record.py`` | how it held when it was measured |

The libraries are those of the field: FastAPI and uvicorn, as in vLLM 0.33.0 and SGLang 0.5.23, and prometheus_client, as in vLLM.
``pip install 'gpulab[server]'`` brings them, and nothing else in gpulab imports this package. A client that closes its side of the
connection has left, also if it would still read.
"""
