// Runs where no optional peer is installed: what needs one says so in a sentence.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { redis } from 'longhaul/redis'

const require = createRequire(import.meta.url)
const client = { evalsha() {}, duplicate() {}, on() {}, options: {} }
// A store on Redis alone needs no BullMQ.
for (const make of [redis, require('longhaul/redis').redis]) {
  const { engine } = make({ client })
  assert.throws(() => engine.bull(), { message: 'The task engine of longhaul/redis needs bullmq: npm install bullmq@6' })
}

const program = require.resolve('longhaul').replace(/dist.cjs.*/, 'dist/node/longhaul.js')
const { stderr, status } = spawnSync(process.execPath, [program, 'migrate', '--url', 'postgres://127.0.0.1:1/x'], { encoding: 'utf8' })
assert.deepEqual([stderr, status], ['longhaul migrate failed: It needs pg: npm install pg@8\n', 1])
