// npm run fuzz [-- --seconds N --seed N --only TEXT]: hostile input for every parser and for a server, for a time.
import { fork } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import type { Order, Told } from './run.js'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '180' },
    seed: { type: 'string' },
    only: { type: 'string', default: '' },
    path: { type: 'string' },
  },
})
const seconds = Number(values.seconds)
const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
if (!(seconds > 0) || !Number.isInteger(seed))
  throw new Error('fuzz: --seconds is a number above 0, --seed a whole number')
/** No rule is busy for so long, or it is caught in a loop. */
const STUCK_MS = 60_000

const order: Order = { seconds, seed, only: values.only, path: values.path }
const child = fork(new URL('run.ts', import.meta.url), {
  execArgv: ['--import', import.meta.resolve('tsx')],
  stdio: 'inherit',
})
let now = 'the start'
let failed = false
const again = (name: string, own: number, path = ''): string =>
  `again: npm run fuzz -- --only ${JSON.stringify(name)} --seed ${own}${path === '' ? '' : ` --path ${path}`}`
let watchdog = setTimeout(stuck, STUCK_MS)
let nowSeed = seed

function stuck(): void {
  failed = true
  console.error(`\n✖ ${now} has not come to an end in ${STUCK_MS / 1000} s\n${again(now, nowSeed)}`)
  child.kill('SIGKILL')
}

console.log(`fuzz: seed ${seed}, ${seconds} s`)
child.send(order)
child.on('message', (told: Told) => {
  clearTimeout(watchdog)
  watchdog = setTimeout(stuck, STUCK_MS)
  if ('begun' in told) [now, nowSeed] = [told.begun, told.seed]
  else if ('failed' in told) {
    failed = true
    console.error(`\n✖ ${told.failed}\n${told.report}\n${again(told.failed, told.seed, told.path)}`)
  } else {
    const names = Object.entries(told.done)
    for (const [name, count] of names) console.log(`${String(count).padStart(8)}  ${name}`)
    console.log(`${names.length} rules, ${names.reduce((sum, [, count]) => sum + count, 0)} inputs, none broken`)
  }
})
child.on('exit', (code, signal) => {
  clearTimeout(watchdog)
  if (code !== 0 && !failed)
    console.error(`\n✖ ${now}: the process ended with ${String(code ?? signal)}\n${again(now, nowSeed)}`)
  process.exitCode = code === 0 && !failed ? 0 : 1
})
