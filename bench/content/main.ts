// npm run bench:content [-- --quick --only '64 MiB']: CPU time of sending a file or a part of it, beside a bare stream and a peer.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { compare, type Row, type Scenario } from '../frame/compare.js'
import { PINNED } from '../frame/program.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'

const { values: { quick, only = '' } } = parseArgs({ options: { quick: { type: 'boolean', default: false }, only: { type: 'string' } } })
const SERVERS = ['bare', 'longhaul', 'result-files', 'express']
const MIB = 1024 * 1024

const folder = await mkdtemp(join(tmpdir(), 'longhaul-bench-'))
process.env['BENCH_FOLDER'] = folder
try {
  await writeFile(join(folder, 'large.bin'), randomBytes(64 * MIB))
  await writeFile(join(folder, 'small.bin'), randomBytes(4096))
  const get = (path: string, ...fields: string[]): string => [`GET ${path} HTTP/1.1`, 'Host: 127.0.0.1', ...fields, '', ''].join('\r\n')
  const scenario = (name: string, batch: number, expectStatus: number, ...requests: string[]): Scenario => ({
    name, batch, warmUp: batch, prepare: async () => ({ requests, expectStatus }),
  })
  const parts = Array.from({ length: 16 }, (_, at) => get('/large.bin', `Range: bytes=${at * 4 * MIB + 17}-${at * 4 * MIB + MIB + 16}`))
  const scenarios = [
    scenario('200, 64 MiB', quick ? 4 : 8, 200, get('/large.bin')),
    scenario('206, 1 MiB', quick ? 200 : 400, 206, ...parts),
    scenario('200, 4 KiB', quick ? 1000 : 2000, 200, get('/small.bin')),
  ].filter(({ name }) => name.includes(only))
  const program = await buildPrograms('content', {
    load: 'bench/content/load.ts', ...Object.fromEntries(SERVERS.map((name) => [name, `bench/content/servers/${name}.ts`])),
  })
  const starts = quick ? 1 : 3
  const rounds = quick ? 3 : 6
  const rows = await compare({
    servers: Object.fromEntries(SERVERS.map((name) => [name, program(name)])), load: program('load'),
    scenarios, starts, rounds, connections: 4, onProgress: (text) => process.stderr.write(`${text}\n`),
  })
  const cell = ({ ratio, micros }: Row): string[] => [
    `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, `${(micros.median / 1000).toFixed(2)} ms`,
  ]
  process.stdout.write(`${versionsOf('express')}; ${starts} starts of ${rounds} rounds, 4 connections, ${PINNED ? 'each server pinned to one core' : 'not pinned'}.
Ratio: CPU for an answer of a bare fs stream over that of the server; median (quartiles). Beside it the CPU time itself.

${table(['', ...scenarios.flatMap(({ name }) => [name, 'CPU'])], SERVERS.map((name) => [name, ...rows.filter(({ server }) => server === name).flatMap(cell)]))}
`)
} finally {
  await rm(folder, { recursive: true, force: true })
}
