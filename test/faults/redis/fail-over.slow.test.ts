// Tasks while sentinels promote the replica of a primary that was killed, or stopped responding, under load.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { redis } from 'longhaul/redis'
import { isStoreUnavailable } from 'longhaul/stores'
import { Places, type TaskEngine, type TaskRun } from '../../../src/engine/engine.js'
import type { NewTask, TaskChange } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { sentinelForFile } from '../../servers/redis-sentinel.js'
import { say, type RedisServer } from '../../servers/redis-server.js'
import { eventually, keepAlive, pause, within } from '../../kit/wait.js'
import { expectListed } from './expect-listed.js'

const HOUR = 3_600_000
/** Maximum time of a call, which the guide promises for its 503, in milliseconds. */
const CALL_MS = 5000
keepAlive({ after })

interface Fault {
  readonly strike: (primary: RedisServer) => unknown
  readonly comeBack: (primary: RedisServer) => unknown
}

const FAULTS: Readonly<Record<string, Fault>> = {
  'is killed': { strike: (primary) => primary.kill(), comeBack: (primary) => primary.run() },
  'stops responding': {
    strike: (primary) => { primary.freeze() }, comeBack: (primary) => { primary.thaw() },
  },
}

/** What happened to one task. */
interface Story {
  isAcknowledged: boolean
  /** The replica, which is the primary later, has the task whose creation was acknowledged. */
  isReplicated: boolean
  /** Number of runs that had begun when the replica had the end of the task. */
  endedAfter: number | undefined
  /** Leases of its runs, in the order in which they began. */
  readonly leases: string[]
  /** Leases whose changes were accepted after the fail-over had begun. */
  readonly accepted: Set<string>
}

function task(n: number): NewTask {
  const id = `task-${String(n)}`
  const owner = `owner-${String(n % 7)}`
  return {
    id, birth: `birth-${String(n)}`, key: `key-${String(n)}`, owner, caller: owner, limit: { group: '', max: 100_000 },
    name: 'report', pool: 'default', priority: 0, input: Json.of({ n }), details: {}, keepMs: HOUR,
  }
}

for (const [fault, { strike, comeBack }] of Object.entries(FAULTS)) {
  describe(`while sentinels replace a primary that ${fault}`, async () => {
    const { master, replica, options } = await sentinelForFile()
    const stories = new Map<string, Story>()
    let isOver = false
    let hasStruck = false
    let begun = 0
    const outcomes = { ok: 0, unavailable: 0 }

    function open(): TaskEngine {
      const client = new Redis(options)
      client.on('error', () => undefined)
      // No lease ends during the test, so a second run means that the begin of the first one is lost.
      const { engine } = redis({ client, namespace: 'fail-over', leaseMs: 600_000 })
      after(async () => {
        await engine.close({ drainMs: 0 })
        client.disconnect()
      })
      return engine
    }

    /** Makes a call, which works, or is unavailable in time. */
    async function call<T>(make: () => T | Promise<T>): Promise<T | undefined> {
      try {
        const result = await within(Promise.resolve(make()), CALL_MS, 'No outcome of a call')
        outcomes.ok++
        return result
      } catch (error) {
        assert.ok(isStoreUnavailable(error), String(error))
        outcomes.unavailable++
        return undefined
      }
    }

    /** Tells whether the replica, or later the new primary, has a property of a task. */
    async function has(id: string, property: string): Promise<boolean> {
      return await say(replica.port, `HEXISTS {fail-over}:engine:h:${id} ${property}`) === ':1\r\n'
    }

    async function submit(engine: TaskEngine, next: () => number): Promise<void> {
      while (!isOver) {
        const n = next()
        const story: Story = {
          isAcknowledged: false, isReplicated: false, endedAfter: undefined, leases: [], accepted: new Set(),
        }
        stories.set(`task-${String(n)}`, story)
        const created = await call(() => engine.create(task(n)))
        story.isAcknowledged = created !== undefined
        await pause(40)
        if (created) story.isReplicated = await has(`task-${String(n)}`, 'm')
      }
    }

    async function change(engine: TaskEngine, run: TaskRun, made: TaskChange): Promise<boolean> {
      for (;;) {
        const isLate = hasStruck
        const changed = await call(() => engine.change(run.task, { lease: run.lease }, made))
        if (changed && isLate && changed.outcome === 'changed') stories.get(run.task.id)?.accepted.add(run.lease)
        if (changed) return changed.outcome === 'changed'
        await pause(50)
      }
    }

    function work(engine: TaskEngine): void {
      engine.work({ places: new Places(new Map([['default', 5]])), callbacks: 1 }, {
        run: async (run) => {
          const story = stories.get(run.task.id) as Story
          story.leases.push(run.lease)
          begun++
          for (const checkpoint of ['1', '2']) {
            await pause(Math.random() * 40)
            if (!await change(engine, run, { checkpoint })) return
          }
          if (!await change(engine, run, { status: 'completed', result: '1', keepMs: HOUR })) return
          if (await has(run.task.id, 'result')) story.endedAfter = story.leases.length
        },
        callback: async () => undefined, remove: async () => true, abandon: () => undefined,
      })
    }

    test('each replicated task exists once and runs once, and calls succeed or are unavailable in time', async (t) => {
      const [web, other, ...workers] = [open(), open(), open(), open()]
      for (const each of workers) work(each)
      let next = 0
      const load = Promise.all([web, web, other, other].map((engine) => submit(engine, () => next++)))
      const all = (): Story[] => [...stories.values()]
      const hasEnded = ({ endedAfter }: Story): boolean => endedAfter !== undefined
      await eventually(() => all().filter(hasEnded).length > 100, 60_000, 'replicated tasks end')
      // From here on, the primary acknowledges what the replica never gets.
      replica.freeze()
      assert.match((await say(master.port, 'CLIENT KILL TYPE replica')) ?? '', /^:1/)
      const before = begun
      await eventually(() => begun > before + 20, 60_000, 'tasks begin')
      hasStruck = true
      await strike(master)
      replica.thaw()
      const promoted = stories.size
      await eventually(() => all().slice(promoted).filter(hasEnded).length > 100, 60_000, 'later tasks end')
      await comeBack(master)
      await eventually(
        async () => (await say(master.port, 'INFO replication'))?.includes('master_link_status:up') ?? false,
        60_000,
        'the old primary follows',
      )
      isOver = true
      await load
      await eventually(
        async () => {
          const { running, waiting } = await web.counts('default')
          return running + waiting === 0
        },
        60_000,
        'all tasks end',
      )

      const ids = [...stories].filter(([, { isReplicated }]) => isReplicated).map(([id]) => id)
      for (const id of ids) {
        const n = id.slice('task-'.length)
        assert.equal((await web.read(id))?.status, 'completed', id)
        assert.equal((await web.readByKey(`key-${n}`))?.id, id)
        const again = await web.create({ ...task(Number(n)), id: `${id}-again`, birth: 'again' })
        assert.deepEqual([again.outcome, 'task' in again && again.task.id], ['exists', id])
      }
      for (let owner = 0; owner < 7; owner++) {
        await expectListed(
          web,
          `owner-${String(owner)}`,
          ids.filter((id) => Number(id.slice('task-'.length)) % 7 === owner),
        )
      }
      for (const [id, { accepted, endedAfter, leases }] of stories) {
        assert.ok(accepted.size <= 1, `${String(accepted.size)} runs of ${id} have changed it`)
        if (endedAfter !== undefined) assert.equal(leases.length, endedAfter, `${id} has run again`)
      }
      const again = all().filter(({ leases }) => leases.length > 1).length
      const acknowledged = [...stories].filter(([, { isAcknowledged }]) => isAcknowledged)
      let lost = 0
      for (const [id] of acknowledged) if (!(await web.read(id))) lost++
      assert.ok(again + lost > 0, 'the fail-over has lost no write')
      t.diagnostic(
        `${String(acknowledged.length)} acknowledged tasks, ${String(ids.length)} of them replicated; ${String(lost)} were lost, ${String(
          again,
        )} ran again; ${JSON.stringify(outcomes)}`,
      )
    })
  })
}
