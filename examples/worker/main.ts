// REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/worker/main.ts
// Runs the tasks that web processes accept. It opens no port. Start as many as you need.
import { openEngine } from './engine.js'

const engine = openEngine({ worker: true })
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => { void engine.stop() })
console.log('The worker is ready')
