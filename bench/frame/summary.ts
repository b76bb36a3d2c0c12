import type { Bar, Panel } from './picture.js'

/** A bar of the picture: a row of a panel over another one. */
interface Choice {
  readonly label: string
  /** Title of the panel, which the scenario and the column of its table make. */
  readonly panel: string
  readonly own: string
  readonly peer: string
}

/** What most users would write otherwise is what longhaul is compared with. */
const CHOICES: readonly Choice[] = [
  { label: 'accept a task: Fastify by hand', panel: 'tasks: accept 202', own: 'longhaul', peer: 'fastify' },
  { label: 'show a task: Fastify by hand', panel: 'tasks: poll 200', own: 'longhaul', peer: 'fastify' },
  { label: 'a whole job: Fastify by hand', panel: 'job: by CPU, no time', own: 'longhaul', peer: 'fastify' },
  { label: 'a job of 5 ms: Express by hand', panel: 'job: by CPU, 5 ms', own: 'longhaul', peer: 'express' },
  {
    label: 'token, rate limit, version: Fastify with plugins',
    panel: 'policies: no version named', own: 'longhaul', peer: 'fastify-policies',
  },
  { label: 'accept over Redis: one raw command', panel: 'redis: accept 202', own: 'longhaul', peer: 'raw' },
  { label: 'jobs through Redis: Fastify and BullMQ', panel: 'bullmq: flows a second', own: 'longhaul', peer: 'fastify' },
  {
    label: 'jobs on PostgreSQL: graphile-worker, status table',
    panel: 'postgres: flows a second', own: 'longhaul', peer: 'graphile-worker',
  },
  { label: 'ten items: Fastify with Ajv', panel: 'bulk: 10 items', own: 'longhaul', peer: 'fastify-ajv' },
  { label: '1,000 items: Fastify with Ajv', panel: 'bulk: 1,000 items', own: 'longhaul', peer: 'fastify-ajv' },
  { label: 'NDJSON in: split2', panel: 'ndjson: small', own: 'LineReader', peer: 'split2' },
  { label: 'a file of 64 MiB: express.static', panel: 'content: 200, 64 MiB', own: 'longhaul', peer: 'express' },
]

/** Returns the bars of what was measured, in their order. */
export function summary(panels: readonly Panel[]): Bar[] {
  return CHOICES.flatMap(({ label, panel, own, peer }) => {
    const bars = panels.find(({ title }) => title === panel)?.bars
    const [ours, theirs] = [own, peer].map((name) => bars?.find((bar) => bar.name === name)?.ratio)
    return ours === undefined || theirs === undefined ? [] : [{ name: label, ratio: ours / theirs }]
  })
}
