// npm run bench -- fanout [--quick] [--simulated]: as many watchers of one task as there may be open connections, by events and by long polls.
import { execFileSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { LOAD_CORE, Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { simulated } from './processes.js'

const { values: { quick, simulated: alone } } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, simulated: { type: 'boolean', default: false } },
})
const limit = Number(execFileSync('/bin/sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim()) || 65_536
/** Descriptors that the server and the machine need for other purposes. */
const most = Math.min(limit - 200, 60_000)
const count = quick ? Math.min(most, 2000) : most
/** Each change needs new long polls, which takes half a minute. */
const CHANGES = quick ? { sse: 3, poll: 2 } : { sse: 10, poll: 3 }
/** A pair of addresses has some 28 000 ports. */
const PER_PROCESS = 10_000

const program = await buildPrograms('fanout', { server: 'bench/fanout/server.ts', watchers: 'bench/fanout/watchers.ts', simulated: 'bench/fanout/simulated.ts' })
const rows: string[][] = []
for (const how of alone ? [] : ['sse', 'poll'] as const) {
  process.stderr.write(`${how}: ${count} watchers\n`)
  const [server, { port }] = await Program.start<{ port: number }>(program('server'), SERVER_CORE, { node: ['--expose-gc'] })
  const submitted = await fetch(`http://127.0.0.1:${port}/tasks`, { method: 'POST', headers: { 'prefer': 'respond-async', 'content-type': 'application/json' }, body: '{}' })
  const path = submitted.headers.get('location') ?? ''
  const before = await server.ask<{ heap: number, rss: number }>('held')
  const processes: Program[] = []
  for (let left = count, at = 0; left > 0; left -= PER_PROCESS, at++) {
    const [each] = await Program.start(program('watchers'), LOAD_CORE)
    processes.push(each)
  }
  const delays: number[] = []
  const changes = CHANGES[how]
  let held = before
  const open = async (): Promise<void> => {
    const etag = (await fetch(`http://127.0.0.1:${port}${path}`)).headers.get('etag') ?? ''
    for (const [at, each] of processes.entries()) {
      const answer = await each.ask<{ open?: number, error?: string }>({
        port, path, how, etag, count: Math.min(PER_PROCESS, count - at * PER_PROCESS), from: `127.0.0.${String(2 + at)}`,
      })
      if (answer.error !== undefined) throw new Error(answer.error)
    }
  }
  if (how === 'sse') await open()
  for (let change = 0; change < changes; change++) {
    // A long poll ends with its answer, so each change has new ones.
    if (how === 'poll') {
      if (change > 0) for (const each of processes) await each.ask('close')
      await open()
    }
    // Reports of progress at short intervals are written as one.
    await new Promise((resolve) => setTimeout(resolve, 1500))
    if (change === 0) held = await server.ask<{ heap: number, rss: number }>('held')
    for (const each of processes) await each.ask('next')
    const told = processes.map((each) => each.next<{ last: number, heard: number }>())
    const { at } = await server.ask<{ at: number }>('tick')
    const all = await Promise.all(told)
    const heard = all.reduce((sum, each) => sum + each.heard, 0)
    if (heard < count) throw new Error(`${heard} of ${count} watchers heard of a change`)
    delays.push(Math.max(...all.map(({ last }) => last)) - at)
  }
  for (const each of [...processes, server]) await each.stop()
  const { median, low, high } = spread(delays)
  rows.push([
    how === 'sse' ? 'server-sent events' : 'long polls', count.toLocaleString('en'), `${((held.heap - before.heap) / count / 1024).toFixed(1)} KiB`,
    `${((held.rss - before.rss) / count / 1024).toFixed(1)} KiB`, `${median.toFixed(0)} ms (${low.toFixed(0)}–${high.toFixed(0)})`, `${(median * 1000 / count).toFixed(1)} µs`,
  ])
}
if (!alone) process.stdout.write(`Watchers of one task in one process; at most ${limit} descriptors may be open (ulimit -n). The delay is from a change to the last watcher that hears of it, median (quartiles) of ${CHANGES.sse} changes, and of ${CHANGES.poll} for polls.

${table(['watchers', 'how many', 'heap for each', 'memory for each', 'to the last', 'for each'], rows)}
`)

process.stderr.write('simulated watchers\n')
const all = await simulated(program('simulated'), quick ? 10_000 : 100_000, quick ? 3 : 10)
process.stdout.write(`
Watchers of one task in five processes that share a Redis, without sockets: what the package itself costs.

${all}
`)
