// npm run bench:bullmq [-- --quick]: a whole flow through BullMQ, from the submission to the poll that shows the result, beside the same by hand,
// once as BullMQ's guide has it and once with the duties that longhaul has.
import { parseArgs } from 'node:util'
import { RedisServer } from '../../test/servers/redis-server.js'
import { buildPrograms } from '../frame/build.js'
import { Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { turned } from '../frame/turn.js'
import { flow } from './flow.js'
import { versionsOf } from '../frame/versions.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const [starts, rounds, count] = quick ? [1, 3, 300] : [5, 4, 1000]
/** Flows before the first that is measured. V8 compiles code during the first thousands of runs. */
const warmUp = quick ? 1000 : 6000
const names = ['fastify', 'fastify-checked', 'longhaul'] as const

interface Sample { readonly perSecond: number, readonly micros: number }

const redis = process.env['REDIS_URL'] === undefined ? await RedisServer.start() : undefined
if (redis) process.env['REDIS_URL'] = redis.url
const program = await buildPrograms('bullmq', Object.fromEntries(names.map((name) => [name, `bench/bullmq/servers/${name}.ts`])))
const samples: Record<string, Sample[]> = {}
for (let start = 1; start <= starts; start++) {
  process.stderr.write(`start ${start} of ${starts}\n`)
  const running = new Map<string, { port: number, processes: Program[] }>()
  for (const name of names) {
    const [worker] = await Program.start<{ port: number }>(program(name), SERVER_CORE, { args: ['worker'] })
    const [web, { port }] = await Program.start<{ port: number }>(program(name), SERVER_CORE, { args: ['web'] })
    running.set(name, { port, processes: [web, worker] })
  }
  const cpu = async (processes: readonly Program[]): Promise<number> => {
    let sum = 0
    for (const each of processes) sum += (await each.ask<{ cpu: number }>('cpu')).cpu
    return sum
  }
  for (const { port } of running.values()) await flow(port, warmUp)
  for (let round = 0; round < rounds; round++) {
    for (const [name, { port, processes }] of turned([...running], round)) {
      const before = await cpu(processes)
      const seconds = await flow(port, count)
      const own = samples[name] ??= []
      own.push({ perSecond: count / seconds, micros: (await cpu(processes) - before) / count })
    }
  }
  for (const { processes } of running.values()) for (const each of processes) await each.stop()
}
await redis?.stop()

const limit = samples['fastify'] ?? []
const ratio = (name: string, of: (one: Sample, other: Sample) => number): string => {
  const { median, low, high } = spread((samples[name] ?? []).map((sample, at) => of(sample, limit[at] ?? sample)))
  return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`
}
process.stdout.write(`${versionsOf('fastify', 'bullmq', 'ioredis')}.

Flows a second, and CPU of web process and worker for one flow, against Fastify and BullMQ by hand: more is better; median (quartiles).

${table(['', 'flows a second', 'CPU', 'ms of CPU for a flow'], names.map((name) => [
    name, ratio(name, (one, other) => one.perSecond / other.perSecond), ratio(name, (one, other) => other.micros / one.micros),
    (spread((samples[name] ?? []).map(({ micros }) => micros)).median / 1000).toFixed(2),
  ]))}
`)
