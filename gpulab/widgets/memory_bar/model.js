/* gpulab.memory.plan, term by term: bytes that each GPU holds at every moment that may be the fullest. */

const quotient = (a, b) => (a - (a % b)) / b; // exact where both are whole and a is below 2**53
const blocks = (count, size) => quotient(count + size - 1, size);
const sum = (list) => list.reduce((a, b) => a + b, 0);
export const total = (terms) => sum(Object.values(terms));

/* The choices of the widget as a job; a sentence where they do not go together. */
export function jobOf(known, chosen) {
  const shape = known.models[chosen.model], precision = known.precisions[chosen.precision];
  const on = known.adapted[chosen.adapted] ?? Object.keys(shape.products);
  const length = chosen.sequence || shape.sequence, tokens = chosen.batch * length;
  const inside = precision.autocast && chosen.stage === 3;
  const bytes = inside ? { weights: 4, activations: 2, master: 0, autocast: false, state: 4 } : precision;
  const everywhere = on.length === Object.keys(shape.products).length;
  const adapters = chosen.lora * (shape.layers * sum(on.map((name) => sum(shape.products[name]))) + (everywhere ? shape.elsewhere : 0));
  const missing = chosen.mode === "train" && chosen.weight_bits < 16 && !chosen.lora;
  return {
    ...chosen, known, shape, on, length, tokens, bytes, adapters,
    logits: shape.read === null ? tokens : chosen.batch * shape.read,
    refused: missing ? "Quantised weights are frozen: to train, choose a rank for LoRA." : "",
  };
}

/* Bytes a token that a layer leaves for its backward pass. */
function norms({ shape, bytes, lora }) {
  if (!shape.rms) return 2 * ((bytes.autocast ? 4 : bytes.activations) * shape.width + 8);
  const scaled = lora ? 0 : bytes.autocast ? 4 : bytes.activations;
  return 2 * ((4 + scaled) * shape.width + 4);
}

function inputs({ shape, bytes, lora }) {
  if (lora) return 0;
  const copies = bytes.autocast && shape.rms ? 3 + (shape.gated ? 2 : 1) : 2;
  return bytes.activations * (copies * shape.width + shape.queries + shape.hidden);
}

function attentionBytes({ shape, bytes, lora, attention, length }) {
  const size = bytes.activations;
  if (attention === "fused") return size * (shape.queries + 2 * shape.keys + (lora ? shape.queries : 0)) + 4 * shape.heads;
  if (shape.rms) {
    const repeated = shape.kv_heads < shape.heads || size < 4 ? shape.queries : shape.keys;
    return 4 * (shape.queries + 2 * repeated) + 4 * shape.heads * length;
  }
  const masks = shape.dropout ? 1 : 0;
  const scores = (bytes.autocast ? 4 : size) + size * (shape.dropout ? 2 : 1) - size * (1 - masks) + masks;
  return size * 3 * shape.queries + shape.heads * length * scores;
}

function mlp({ shape, bytes }) {
  if (shape.gated) return 3 * bytes.activations * shape.hidden;
  return bytes.activations * shape.hidden + (shape.dropout ? 2 * shape.width : 0);
}

function adapterBytes({ shape, bytes, lora, on }) {
  if (!lora) return 0;
  const source = { q_proj: "first", k_proj: "first", v_proj: "first", gate_proj: "second", up_proj: "second" };
  const read = new Map(on.map((name) => [source[name] ?? name, shape.products[name][0]]));
  return (bytes.autocast ? bytes.activations : bytes.weights) * (sum([...read.values()]) + lora * on.length);
}

const layer = (job) => norms(job) + inputs(job) + attentionBytes(job) + mlp(job) + adapterBytes(job);

function keptLayer(job) {
  const { shape, bytes, checkpointing } = job, residual = (bytes.autocast ? 4 : bytes.activations) * shape.width;
  if (checkpointing === "every layer") return residual;
  if (checkpointing === "none") return layer(job);
  return residual + bytes.activations * (2 * shape.queries + shape.keys + shape.hidden + shape.width) + 4 * shape.heads;
}

/* When it comes to attention, what the MLP saved is gone. */
function transient(job) {
  const { shape, bytes, attention, length, lora } = job, size = bytes.activations, gate = size * (2 * shape.hidden + shape.width);
  const scores = attention === "written out" ? 8 * shape.heads * length : size * 3 * shape.queries;
  const gone = mlp(job) + (lora ? 0 : size * shape.hidden);
  return Math.max(gate, scores - gone) + size * shape.width;
}

const lastNorm = (job) => (job.shape.rms ? quotient(norms(job), 2) : job.bytes.activations * job.shape.width);
const logitsOf = ({ shape }) => 12 * shape.vocabulary;

/* What has one size from step to step. */
const trained = (job) => (job.lora ? job.adapters : job.shape.parameters);

function gathered({ shape, bytes, stage, world, weight_bits }) {
  if (stage < 3 || world === 1) return 0;
  return Math.trunc(2 * (weight_bits < 16 ? weight_bits / 8 : bytes.activations) * shape.layer_parameters) + bytes.activations * shape.outside;
}

/* Eight bits have one for each row, four bits one for each block. */
const scalesOf = ({ shape, known, weight_bits }, matrices) =>
  weight_bits === 8 ? shape.layers * shape.layer_rows : blocks(matrices, known.weight_block);

function weights(job) {
  const { shape, bytes, known } = job, matrices = shape.layers * shape.layer_matrices, narrow = job.weight_bits < 16;
  const own = narrow ? quotient(matrices * job.weight_bits, 8) + bytes.weights * (shape.parameters - matrices) : bytes.weights * shape.parameters;
  const share = job.stage === 3 ? job.world : 1;
  return {
    parameters: quotient(own + bytes.weights * job.adapters, share),
    scales: narrow ? quotient(4 * scalesOf(job, matrices), share) : 0,
    "gathered weights": gathered(job),
  };
}

function optimizerState(job) {
  const { bytes, known } = job, count = trained(job), share = job.stage >= 1 ? job.world : 1;
  const state = { sgd: 0, adamw: 2 * bytes.state * count, "adamw 8-bit": 2 * (count + 4 * blocks(count, known.state_block)) };
  return { "master weights": quotient(bytes.master * count, share), optimizer: quotient(state[job.optimizer], share) };
}

function given({ shape, bytes, batch, tokens }) {
  return shape.read === null || !shape.given ? 16 * tokens : batch * shape.given * (1 + bytes.activations);
}

function casts({ shape, bytes, weight_bits, logits, adapters }) {
  if (!bytes.autocast) return 0;
  return 2 * ((weight_bits < 16 ? 0 : shape.layers * shape.layer_matrices) + (logits ? shape.embedding : 0) + adapters);
}

const dequantised = ({ shape, bytes, weight_bits }) =>
  weight_bits === 16 ? 0 : bytes.activations * Math.max(...Object.values(shape.products).map(([a, b]) => a * b));
const unshardedGradients = ({ shape, bytes, stage, lora, world }) =>
  stage < 2 || lora || world === 1 ? 0 : (bytes.activations + 4) * shape.layer_parameters;
const step = (job) => (job.optimizer !== "adamw" ? 0 : quotient(job.bytes.state * trained(job), job.stage >= 1 ? job.world : 1));

function training(job) {
  const { shape, bytes, tokens, lora } = job, held = { ...weights(job), ...optimizerState(job) };
  const gradients = quotient(bytes.weights * trained(job), job.stage >= 2 ? job.world : 1);
  const kept = tokens * (shape.layers * keptLayer(job) + lastNorm(job)) + given(job);
  const again = job.checkpointing === "none" ? 0 : tokens * layer(job);
  const passing = tokens * transient(job) + dequantised(job) + unshardedGradients(job);
  const lookedUp = lora ? 0 : Math.min(bytes.weights * shape.embedding, gradients);
  const head = lora || !job.logits ? 0 : bytes.weights * shape.embedding;
  const last = head + quotient(lora ? 0 : bytes.weights * shape.layer_matrices, 2);
  return {
    "as the backward pass begins": { ...held, activations: kept, "weight casts": casts(job), logits: job.logits * logitsOf(job), gradients: 0 },
    "in the last layer's backward pass": {
      ...held, activations: kept + again, "weight casts": casts(job), temporaries: passing, gradients: Math.min(last, gradients),
    },
    "in the first layer's backward pass": {
      ...held, gradients: gradients - lookedUp, temporaries: passing, activations: quotient(tokens * layer(job), 2) + given(job),
    },
    "in the embedding's backward pass": {
      ...held, gradients, activations: given(job), temporaries: shape.embedded > 1 ? lookedUp * shape.embedded : 0,
    },
    "in the optimizer's step": {
      ...held, temporaries: step(job) + given(job), gradients: quotient(gradients * (bytes.master || bytes.weights), bytes.weights),
    },
  };
}

function serving(job) {
  const { shape, bytes, tokens } = job, size = bytes.activations;
  const attention = job.attention === "fused" ? 4 * size * shape.queries : 24 * shape.queries + 8 * shape.heads * job.length;
  const passing = Math.max(3 * size * shape.hidden, attention) + 3 * size * shape.width;
  return {
    "while a prompt is read": {
      ...weights(job), cache: 2 * shape.layers * shape.keys * size * tokens, "weight casts": casts(job),
      temporaries: tokens * passing + dequantised(job), logits: shape.read === 0 ? 0 : job.batch * shape.vocabulary * size,
    },
  };
}

/* The fullest moment, its terms, the card, and the term that binds. */
export function plan(job) {
  const moments = job.mode === "serve" ? serving(job) : training(job);
  for (const terms of Object.values(moments)) terms.context = job.known.context;
  const [moment, all] = Object.entries(moments).reduce((best, one) => (total(one[1]) > total(best[1]) ? one : best));
  const terms = Object.fromEntries(Object.entries(all).filter(([, count]) => count));
  const free = Object.entries(terms).filter(([name]) => name !== "context");
  const reducible = job.weight_bits === 4 ? free.filter(([name]) => name !== "parameters" && name !== "scales") : free;
  const [binding] = (reducible.length ? reducible : free).reduce((best, one) => (one[1] > best[1] ? one : best));
  const capacity = job.known.cards[job.card].bytes, peak = total(terms);
  return { moments, moment, terms, binding, capacity, peak, fits: peak <= capacity };
}
