"""Chapter "Host and device: moving bytes": what the learner's functions did on a virtual card.

Each case gets a card of its own, so that times, streams and memory start from nothing."""

CARD = "virtual:T4"
