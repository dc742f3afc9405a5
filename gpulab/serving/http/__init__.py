"""TinyVLA behind an HTTP endpoint of OpenAI's shape, driven by ``gpulab.serving.Engine``: ``make serve-model``.

>>> from openai import OpenAI
>>> client = OpenAI(base_url="http://127.0.0.1:8001/v1", api_key="none")
>>> for part in client.completions.create(model="tinyvla", prompt="move to the red", max_tokens=8, stream=True):
...     print(part.choices[0].text, end="")  # doctest: +SKIP

| file | says |
| --- | --- |
| ``language.py`` | words and pictures to token ids, and back |
| ``asked.py`` | what a client may ask, and what is refused |
| ``worker.py`` | the engine, in a thread of its own |
| ``desk.py`` | who is at the door: admission, tokens as they come, clients that leave |
| ``answers.py`` | OpenAI's answers, whole and in pieces |
| ``errors.py`` | OpenAI's errors |
| ``metrics.py`` | Prometheus' format |
| ``patience.py`` | how long and how large a request may be on its way in, and out |
| ``app.py`` | the endpoints |
| ``parts.py`` | a scheduler from a learner's file |
| ``record.py`` | how it held when it was measured |

The libraries are those of the field: FastAPI and uvicorn, as in vLLM 0.33.0 and SGLang 0.5.23, and prometheus_client, as in vLLM.
``pip install 'gpulab[server]'`` brings them, and nothing else in gpulab imports this package. A client that closes its side of the
connection has left, also if it would still read.
"""
