// npm run bench:policies [-- --quick | --instructions]: CPU time that authentication, a rate limit and versions add to accepting a task.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { compare, type Scenario } from '../frame/compare.js'
import { instructionsFor } from '../frame/instructions.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'
import { BODY } from '../tasks/work.js'
import { TOKEN } from './flow.js'

const { values: { quick, instructions } } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, instructions: { type: 'boolean', default: false } },
})
/** Maximum share of the CPU time of the accept flow. */
const BUDGET = 0.15

const post = (path: string, accept: string): string => [
  `POST ${path} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', `Accept: ${accept}`, `Authorization: Bearer ${TOKEN}`, 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(BODY)}`, '', BODY,
].join('\r\n')
const batch = quick ? 1500 : 4000
const scenario = (name: string, request: string): Scenario =>
  ({ name, batch, warmUp: 3 * batch, prepare: async () => ({ requests: [request], expectStatus: 202 }) })
const requests = { 'no version named': post('/reports', '*/*'), 'by query': post('/reports?version=2', 'application/json') }
const scenarios = Object.entries(requests).map(([name, request]) => scenario(name, request))

/** The servers on Express take most of the time. */
const names = ['plain', 'policies', ...quick ? [] : ['express', 'express-policies'], 'fastify', 'fastify-policies']
/** The peers without policies are those of bench/tasks. */
const program = await buildPrograms('policies', Object.fromEntries(names.map((name) => [
  name, `bench/${name === 'express' || name === 'fastify' ? 'tasks' : 'policies'}/servers/${name}.ts`,
])))
if (instructions) {
  // Counts instructions, without the kernel. Other programs on the machine do not change the count.
  const pairs = { longhaul: ['plain', 'policies'], fastify: ['fastify', 'fastify-policies'], express: ['express', 'express-policies'] } as const
  const counts: string[][] = []
  for (const [name, pair] of Object.entries(pairs)) {
    for (const [asked, request] of Object.entries(requests)) {
      process.stderr.write(`${name}, ${asked}\n`)
      const [without, all] = [
        await instructionsFor({ file: program(pair[0]), load: program('load'), prepare: () => ({ requests: [request], expectStatus: 202 }) }),
        await instructionsFor({ file: program(pair[1]), load: program('load'), prepare: () => ({ requests: [request], expectStatus: 202 }) }),
      ]
      counts.push([`${name}, ${asked}`, without.toFixed(0), all.toFixed(0), `${((all / without - 1) * 100).toFixed(1)} %`])
    }
  }
  process.stdout.write(`Instructions in user mode for one request, warm.\n\n${table(['', 'accept flow', 'with policies', 'added'], counts)}\n`)
  process.exit()
}

const rows = await compare({
  servers: Object.fromEntries(names.map((name) => [name, program(name)])), load: program('load'),
  scenarios, starts: quick ? 2 : 5, rounds: 4, connections: 32, onProgress: (text) => process.stderr.write(`${text}\n`),
})
const added = rows.filter(({ server }) => server === 'policies').map(({ scenario: name, ratio, micros }) => {
  const share = (value: number): string => `${((1 / value - 1) * 100).toFixed(0)} %`
  return [name, `${share(ratio.median)} (${share(ratio.high)}–${share(ratio.low)})`, `${micros.median.toFixed(1)} µs`]
})
process.stdout.write(`${versionsOf('fastify', 'rate-limiter-flexible', 'express', 'express-rate-limit')}. CPU that authentication, rate limit and versions add to the accept flow, of that flow's own; median (quartiles). The limit is ${BUDGET * 100} %.

${table(['', 'added', 'CPU with them'], added)}

The same beside the peers: bearer, limit and a version in the query by hand, with express-rate-limit and rate-limiter-flexible. Ratio: longhaul's flow without all that over each.

${table(['', ...scenarios.flatMap(({ name }) => [name, 'CPU'])], names.map((server) => [
  server === 'plain' ? 'longhaul, plain' : server === 'policies' ? 'longhaul' : server,
  ...rows.filter((row) => row.server === server).flatMap(({ ratio, micros }) => [`${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, `${micros.median.toFixed(1)} µs`]),
]))}
`)
