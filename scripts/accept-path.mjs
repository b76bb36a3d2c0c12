// Prints the files and functions of src and adapters that one POST with `Prefer: respond-async` executes, on node:http
// with memory(): node scripts/structure.mjs --path. Needs tsx: node --import tsx scripts/accept-path.mjs
import { createServer, request } from 'node:http'
import { Session } from 'node:inspector/promises'
import { dirname, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const { createTasks, defineTask, taskEndpoints, jsonSchema } = await import('../src/index.js')
const { memory } = await import('../adapters/memory/index.js')
const { toNode } = await import('../adapters/node/index.js')
/** Functions that nobody wrote: a helper of the transpiler, and the fields of a class. */
const GENERATED = new Set(['__name', '<instance_members_initializer>'])

let finish
const report = defineTask({
  name: 'report',
  input: jsonSchema({ type: 'object', properties: { year: { type: 'integer' } }, required: ['year'] }),
  run: ({ year }) => finish ? new Promise((done) => { finish = done }) : { message: `report of ${year}` },
})
const tasks = createTasks({ ...memory(), definitions: [report], concurrency: 1 })
const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => undefined, anonymous: true })
const server = createServer(toNode(submit(report)))
await new Promise((listening) => { server.listen(0, '127.0.0.1', listening) })

const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

for (let count = 0; count < 200; count++) await post()
const withRun = await executed()
finish = () => undefined
await post()
const accept = await executed()
finish()

print('accept', accept)
print('accept and run', withRun)
if (process.argv.includes('--functions')) {
  for (const [file, names] of [...accept].sort()) console.log(`${file}: ${names.join(', ')}`)
}
server.close()
await tasks.close()
process.exit()

/**
 * Returns the functions that each of three further requests executes, by file. What only some of them execute
 * belongs to a timer that fell due meanwhile.
 */
async function executed() {
  const [first, ...others] = [await executedOnce(), await executedOnce(), await executedOnce()]
  const common = [...first].map(([file, names]) => [
    file, others.reduce((left, other) => shared(left, other.get(file) ?? []), names),
  ])
  return new Map(common.filter(([, names]) => names.length > 0))
}

/** Returns the names that both lists have, each as often as both have it. */
function shared(names, others) {
  const rest = [...others]
  return names.filter((name) => {
    const at = rest.indexOf(name)
    if (at >= 0) rest.splice(at, 1)
    return at >= 0
  })
}

async function executedOnce() {
  await sleep(50)
  await session.post('Profiler.takePreciseCoverage')
  await post()
  await sleep(50)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const found = new Map()
  for (const { url, functions } of result) {
    const file = url.startsWith('file:') ? relative(root, fileURLToPath(url.replace(/\?.*/, ''))) : ''
    if (!/^(src|adapters)\//.test(file)) continue
    const names = functions.filter(({ functionName, ranges: [{ count, startOffset }] }) => (
      count > 0 && !GENERATED.has(functionName) && !(functionName === '' && startOffset === 0)
    )).map(({ functionName }) => functionName || '(anonymous)')
    if (names.length > 0) found.set(file, names)
  }
  return found
}

function post() {
  return new Promise((done, failed) => {
    const body = '{"year":2026}'
    const headers = { 'content-type': 'application/json', 'content-length': body.length, 'prefer': 'respond-async' }
    const { port } = server.address()
    request({ port, method: 'POST', path: '/reports', headers }, (response) => {
      if (response.statusCode !== 202) failed(new Error(`status ${response.statusCode}`))
      response.resume().on('end', done)
    }).on('error', failed).end(body)
  })
}

function print(what, found) {
  const count = [...found.values()].reduce((sum, functions) => sum + functions.length, 0)
  console.log(`a 202 in memory, ${what}: ${found.size} files, ${count} functions`)
}
