import type { LoadOrder } from './load.js'
import { Load, ServerProgram } from './program.js'
import { spread, type Spread } from './stats.js'
import { turned } from './turn.js'

/** One kind of request that all servers answer. */
export interface Scenario {
  readonly name: string
  /** Requests for one batch; `batch` gives how many. */
  readonly batch: number
  readonly warmUp: number
  /** Number of connections. Default: that of the plan. */
  readonly connections?: number
  /** Creates the requests for one server, once per start. May send requests of its own. */
  readonly prepare: (run: (order: Omit<LoadOrder, 'port' | 'connections'>) => Promise<readonly string[]>) => Promise<Omit<LoadOrder, 'port' | 'connections' | 'count'>>
}

export interface Plan {
  /** Name and built program of each server. The first is the limit that all ratios refer to. */
  readonly servers: Readonly<Record<string, string>>
  readonly load: string
  readonly scenarios: readonly Scenario[]
  /** Number of starts of all processes. Processes differ more than the batches of one process. */
  readonly starts: number
  /** Rounds of each scenario within one start. Every server gets one batch in each. */
  readonly rounds: number
  readonly connections: number
  readonly onProgress?: (text: string) => void
}

export interface Row {
  readonly server: string
  readonly scenario: string
  /** CPU microseconds for one request. */
  readonly micros: Spread
  /** CPU time of the limit divided by that of this server, batch by batch. 1 is as fast as the limit. */
  readonly ratio: Spread
  /** The same by user CPU time, without the kernel, which costs all servers the same. */
  readonly userRatio: Spread
  /** The same by the duration of a batch, which includes the load generator and the kernel. */
  readonly wall: Spread
  /** The 99th percentile of the response time, in milliseconds. */
  readonly p99: Spread
}

interface Sample {
  readonly server: string
  readonly scenario: string
  readonly micros: number
  readonly ratio: number
  readonly userRatio: number
  readonly wall: number
  readonly p99: number
}

interface Batch {
  readonly micros: number
  readonly userMicros: number
  readonly seconds: number
  readonly p99: number
}

/**
 * Measures all servers in turn (A B C, B C A, …) in each scenario, so that other load on the machine affects all
 * alike. Each batch is compared with the limit's batch of the same round.
 */
export async function compare(plan: Plan): Promise<Row[]> {
  const samples: Sample[] = []
  for (let start = 1; start <= plan.starts; start++) {
    plan.onProgress?.(`start ${start} of ${plan.starts}`)
    await oneStart(plan, start, samples)
  }
  return plan.scenarios.flatMap(({ name: scenario }) => Object.keys(plan.servers).map((server) => {
    const own = samples.filter((sample) => sample.server === server && sample.scenario === scenario)
    const of = (what: 'micros' | 'ratio' | 'userRatio' | 'wall' | 'p99'): Spread => spread(own.map((sample) => sample[what]))
    return { server, scenario, micros: of('micros'), ratio: of('ratio'), userRatio: of('userRatio'), wall: of('wall'), p99: of('p99') }
  }))
}

async function oneStart(plan: Plan, start: number, samples: Sample[]): Promise<void> {
  const load = await Load.start(plan.load)
  const running = new Map<string, ServerProgram>()
  try {
    for (const [name, file] of turned(Object.entries(plan.servers), start)) running.set(name, await ServerProgram.start(file))
    // One scenario after the other, so that garbage of one is not collected during the next.
    for (const scenario of plan.scenarios) {
      const { connections = plan.connections } = scenario
      const orders = new Map<string, Omit<LoadOrder, 'count'>>()
      for (const [name, { port }] of running) {
        const prepared = await scenario.prepare(async (order) => (await load.run({ ...order, port, connections })).bodies)
        const order = { ...prepared, port, connections }
        await load.run({ ...order, count: scenario.warmUp })
        orders.set(name, order)
      }
      for (let round = 0; round < plan.rounds; round++) {
        const batches = new Map<string, Batch>()
        for (const [name, server] of turned([...running], round)) {
          const before = await server.cpu()
          const { seconds, p99 } = await load.run({ ...orders.get(name) as Omit<LoadOrder, 'count'>, count: scenario.batch })
          const after = await server.cpu()
          const micros = (after.cpu - before.cpu) / scenario.batch
          batches.set(name, { micros, userMicros: (after.user - before.user) / scenario.batch, seconds, p99 })
        }
        const limit = batches.get(Object.keys(plan.servers)[0] as string) as Batch
        for (const [server, { micros, userMicros, seconds, p99 }] of batches) {
          samples.push({
            server, scenario: scenario.name, micros, p99, ratio: limit.micros / micros,
            userRatio: limit.userMicros / userMicros, wall: limit.seconds / seconds,
          })
        }
      }
    }
  } finally {
    for (const server of running.values()) await server.stop()
    await load.stop()
  }
}
