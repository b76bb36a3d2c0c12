// Watchers of one task in five processes that share a Redis. They have no sockets, so descriptors do not limit them.
import { RedisServer } from '../../test/servers/redis-server.js'
import { Program } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'

const PROCESSES = 5
/** Reports of progress at short intervals are written as one. */
const APART_MS = 1500

/** Measures so many watchers over five processes. Returns the table. */
export async function simulated(file: string, watchers: number, changes: number): Promise<string> {
  const redis = await RedisServer.start()
  const programs: Program[] = []
  try {
    for (let at = 0; at < PROCESSES; at++) {
      const [program] = await Program.start(file, at % 2, { node: ['--expose-gc'], args: [redis.url, at === 0 ? 'worker' : 'web'] })
      programs.push(program)
    }
    const [runner] = programs as [Program]
    const { path } = await runner.ask<{ path: string }>('submit')
    const before = await heapOf(programs)
    for (const each of programs) await each.ask({ path, count: watchers / PROCESSES })
    const bytes = (await heapOf(programs) - before) / watchers
    const delays: number[] = []
    const costs: number[] = []
    for (let change = 0; change < changes; change++) {
      await new Promise((resolve) => setTimeout(resolve, APART_MS))
      for (const each of programs) await each.ask('next')
      const [first, ...others] = programs as [Program, ...Program[]]
      const told = others.map((each) => each.next<{ last: number, cpu: number }>())
      const { at } = await first.ask<{ at: number }>('tick')
      const all = await Promise.all([first.next<{ last: number, cpu: number }>(), ...told])
      delays.push(Math.max(...all.map(({ last }) => last)) - at)
      costs.push(all.reduce((sum, { cpu }) => sum + cpu, 0) / watchers)
    }
    const delay = spread(delays)
    const cost = spread(costs)
    return table(['processes', 'watchers', 'heap for each', 'CPU for an event', 'to the last'], [[
      String(PROCESSES), watchers.toLocaleString('en'), `${(bytes / 1024).toFixed(1)} KiB`, `${cost.median.toFixed(1)} µs`,
      `${delay.median.toFixed(0)} ms (${delay.low.toFixed(0)}–${delay.high.toFixed(0)})`,
    ]])
  } finally {
    for (const each of programs) await each.stop()
    await redis.stop()
  }
}

async function heapOf(programs: readonly Program[]): Promise<number> {
  let sum = 0
  for (const each of programs) sum += (await each.ask<{ heap: number }>('held')).heap
  return sum
}
