/* gpulab.widgets.fsdp_timeline.schedule: what a moment holds and what was sent, in units. */

export const live = ({ whole, gradients, summed }, units, ranks) => (units + summed.length) / ranks + whole.length + gradients.length;

/* A rank of DDP holds all weights, and each gradient from when it is computed to the update. */
export const replicated = ({ replica }, units) => units + replica;

const count = (moments) => moments.reduce((all, { event }) => all + event.sends.length, 0);
export const sent = (moments, ranks) => (count(moments) * (ranks - 1)) / ranks;

/* Collectives, and those beside which nothing is computed. */
export const exposed = (moments) => ({ all: count(moments), alone: count(moments.filter(({ event }) => !event.compute)) });
