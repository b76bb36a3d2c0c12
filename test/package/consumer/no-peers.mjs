// Runs where no optional peer is installed: what needs one says so in a sentence.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { BullMQQueue } from 'longhaul/bullmq'
import { postgres, PostgresQueue } from 'longhaul/postgres'

const require = createRequire(import.meta.url)
const pool = { query() {}, connect() {}, on() {}, options: {} }
const cjs = { ...require('longhaul/postgres'), ...require('longhaul/bullmq') }
for (const make of [
  () => postgres({ pool }), () => new PostgresQueue({ pool }), () => new BullMQQueue({ connection: {} }),
  () => cjs.postgres({ pool }), () => new cjs.BullMQQueue({ connection: {} }),
]) {
  assert.throws(make, { message: 'Queues of longhaul/postgres and longhaul/bullmq need bullmq: npm install bullmq@6' })
}

const program = require.resolve('longhaul').replace(/dist.cjs.*/, 'dist/node/longhaul.js')
const { stderr, status } = spawnSync(process.execPath, [program, 'migrate', '--url', 'postgres://127.0.0.1:1/x'], { encoding: 'utf8' })
assert.deepEqual([stderr, status], ['longhaul migrate failed: It needs pg: npm install pg@8\n', 1])
