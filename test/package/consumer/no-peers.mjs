// Runs where no optional peer is installed: what needs one says so in a sentence.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const program = require.resolve('longhaul').replace(/dist.cjs.*/, 'dist/node/longhaul.js')
const { stderr, status } = spawnSync(process.execPath, [program, 'migrate', '--url', 'postgres://127.0.0.1:1/x'], { encoding: 'utf8' })
assert.deepEqual([stderr, status], ['longhaul migrate failed: It needs pg: npm install pg@8\n', 1])
