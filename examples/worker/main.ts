// REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/worker/main.ts
// Runs the tasks that web processes accept. It opens no port. Start as many as you need.
import { closeOnSignal } from 'longhaul/node'
import { openEngine } from './engine.js'

closeOnSignal(openEngine({ worker: true }))
console.log('The worker is ready')
