/* PyTorch's LinearLR, then CosineAnnealingLR, LinearLR, or ConstantLR and LinearLR, joined by SequentialLR. */

export const STABLE = 0.8, MICRO = 4, LONGER = 1.25;

export const warmUpSteps = ({ warm_up, total }) => Math.round((warm_up / 100) * total);

/* The rate after so many steps of the scheduler. Past the end a cosine goes on, and a line stays at its end. */
export function scheduled(job, steps) {
  const { peak, shape, total } = job, warm = warmUpSteps(job), floor = (peak * job.floor) / 100;
  if (steps < warm) return (peak * (steps + 1)) / (warm + 1);
  if (shape === "cosine") return floor + (peak - floor) * (0.5 + 0.5 * Math.cos((Math.PI * (steps - warm)) / (total - warm)));
  const begin = shape === "stable" ? Math.round(STABLE * total) : warm;
  const through = Math.min(1, Math.max(0, (steps - begin) / (total - begin)));
  return peak + (floor - peak) * through;
}

/* The rate of each optimizer step of the run, as the loop has it. */
export function rates(job) {
  const steps = job.loop === "longer" ? LONGER * job.total : job.total;
  return Array.from({ length: steps }, (_, step) => {
    if (job.loop === "micro-batches") return scheduled(job, MICRO * step);
    if (job.loop === "restart" && step >= job.total / 2) return scheduled(job, step - job.total / 2);
    return scheduled(job, step);
  });
}
