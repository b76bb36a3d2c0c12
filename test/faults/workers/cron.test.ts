// A schedule in several processes, on each engine, with processes that stop and start again.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask } from 'longhaul'
import { cron } from 'longhaul/cron'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { eventually } from '../../kit/wait.js'

const { url } = await redisForFile()
const connectionString = await postgresUrl()

/** Opens the parts of one process. */
const ENGINES = {
  memory: () => openDatabase(undefined),
  redis: () => openDatabase(url),
  postgres: () => openDatabase(connectionString),
}

function processOf(t: TestContext, { parts, close }: ReturnType<typeof openDatabase>, ran: string[]) {
  const tick = defineTask({
    name: `tick-${t.name.length}`, schedule: cron('* * * * * *', { input: (time) => ({ at: time.toISOString() }) }),
    run: (input, { taskId }) => {
      ran.push(`${String(taskId)} ${(input as { at: string }).at}`)
      return { message: 'Ticked.' }
    },
  })
  const errors: unknown[] = []
  const tasks = createTasks({ ...parts, definitions: [tick], onError: (error) => { errors.push(error) } })
  let stopping: Promise<void> | undefined
  const stop = () => stopping ??= tasks.close({ drainMs: 5000 }).then(close)
  t.after(stop)
  return { tasks, stop, errors }
}

const secondOf = (line: string): number => Date.parse(String(line.split(' ')[1])) / 1000

for (const [name, open] of Object.entries(ENGINES)) {
  test(`${name}: each firing runs once, and gets its time`, async (t) => {
    const ran: string[] = []
    const processes = [processOf(t, open(), ran), ...name === 'memory' ? [] : [processOf(t, open(), ran)]]
    await eventually(() => ran.length >= 4, 20_000, 'four firings ran')
    await Promise.all(processes.map(({ stop }) => stop()))
    assert.equal(new Set(ran).size, ran.length, `none twice: ${ran.join(', ')}`)
    const seconds = ran.map(secondOf).sort((a, b) => a - b)
    assert.ok(seconds.every((second) => Number.isInteger(second)), 'on whole seconds')
    assert.match(String(ran[0]), /^tick-\d+\.\d{8}T\d{6}Z\.[\w-]{22} \d{4}-/)
    for (const { errors } of processes) assert.deepEqual(errors, [])
  })
}

for (const name of ['redis', 'postgres'] as const) {
  test(`${name}: the next process catches up on the latest firing that all processes missed`, async (t) => {
    const ran: string[] = []
    const first = processOf(t, ENGINES[name](), ran)
    await eventually(() => ran.length >= 1, 20_000, 'a firing ran')
    await first.stop()
    const before = new Set(ran)
    await sleep(3500)
    const restarted = Date.now() / 1000
    const second = processOf(t, ENGINES[name](), ran)
    await eventually(() => ran.length >= before.size + 2, 20_000, 'two more ran')
    await second.stop()
    const later = ran.filter((line) => !before.has(line)).map(secondOf)
    assert.equal(new Set(ran).size, ran.length, 'none twice')
    assert.equal(
      later.filter((at) => at < Math.floor(restarted)).length <= 1,
      true,
      `one at most is made up for: ${later.join(', ')}`,
    )
  })
}
