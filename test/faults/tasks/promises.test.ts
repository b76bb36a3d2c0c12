// What a client is promised, over HTTP, on each engine, while calls of the engine are slow, fail,
// or lose their replies.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isFinalStatus } from '../../../src/engine/task.js'
import { receiver } from '../../http/kit/callbacks.js'
import { databases, idOf, openSites, type Site } from '../kit/tasks.js'
import { eventually, pause } from '../../kit/wait.js'

const ends = async ({ tasks }: Site, id: string, status = 'completed'): Promise<void> => {
  assert.equal((await tasks.wait(id, { timeoutMs: 60_000 }))?.status, status)
}

for (const { name, url } of databases) {
  describe(`on ${name}`, () => {
    for (const reason of ['429', 'shutdown'] as const) {
      // In memory nothing is accepted after a shutdown.
      if (reason === 'shutdown' && url === undefined) continue
      test(`three requests with a key make one task, if one request is slow and one is rejected (${reason})`, async (t) => {
        const { sites: [slow, other = slow, ...more], ran } = await openSites(t, url, 3, { maxPerOwner: 1 })
        const key = 'one'
        let release = (): void => undefined
        const delay = new Promise<void>((resolve) => { release = resolve })
        let isSlow = true
        slow.next = (call) => {
          if (call !== 'create' || !isSlow) return undefined
          isSlow = false
          return delay
        }
        const first = slow.submit({}, key)
        await eventually(() => !isSlow, 30_000, 'the first request comes to the engine')
        if (reason === '429') {
          const busy = await other.submit({ ms: 60_000 })
          assert.equal((await other.submit({}, key)).status, 429)
          await other.tasks.cancel(idOf(busy))
        } else {
          await other.tasks.close({ drainMs: 0 })
          assert.equal((await other.submit({}, key)).status, 503)
        }
        const third = await (more[0] ?? other).submit({}, key)
        assert.equal(third.status, 202)
        release()
        const responses = [await first, third, await slow.submit({}, key)]
        for (const response of responses) assert.ok([200, 202].includes(response.status), String(response.status))
        const [id = '', ...others] = new Set(responses.map(idOf))
        assert.deepEqual(others, [])
        await ends(slow, id)
        assert.equal(ran.filter(({ input }) => input.ms === undefined).length, 1)
      })
    }

    test('requests with the same key or the same id, in two processes at once, run once', async (t) => {
      const { sites, ran } = await openSites(t, url, 2)
      const both = <T>(ask: (site: Site) => Promise<T>): Promise<T[]> => Promise.all([...sites, ...sites].map(ask))
      for (let round = 0; round < 5; round++) {
        const ids = new Set((await both((site) => site.submit({}, `key-${String(round)}`))).map(idOf))
        assert.equal(ids.size, 1)
        await ends(sites[0], [...ids][0] ?? '')
        const id = `id-${String(round)}`
        const made = await both(({ tasks, work }) => tasks.submit(work, {}, { id }))
        assert.equal(made.filter(({ created }) => created).length, 1)
        await ends(sites[0], id)
      }
      assert.equal(ran.length, 10)
    })

    test('a retry with a key makes one further run, even if its reply is lost', async (t) => {
      const { sites: [site], ran } = await openSites(t, url, 1)
      const id = idOf(await site.submit({ fails: 1 }))
      await ends(site, id, 'failed')
      let lost = 0
      site.next = (call) => (call === 'change' && lost++ === 0 ? 'lost' : undefined)
      const retry = (): Promise<Response> =>
        site.ask('POST', `/tasks/${id}/retry`, { 'x-user': 'ann', 'idempotency-key': '"again"' })
      for (let tried = 0, status = 503; status === 503; tried++) {
        assert.ok(tried < 5, 'a repetition gets a response')
        ;({ status } = await retry())
        assert.ok([200, 202, 503].includes(status), String(status))
      }
      assert.ok(lost > 0, 'a reply was lost')
      await ends(site, id)
      assert.ok([200, 202].includes((await retry()).status), 'a late repetition gets the same response')
      await pause(200)
      assert.equal(ran.length, 2)
    })

    test('the key of a task that starts in 30 days lives as long as the task', async (t) => {
      const { sites: [site, other = site] } = await openSites(t, url, 2)
      const id = idOf(await site.submit({ startAt: 'P30D' }, 'later'))
      assert.equal(idOf(await other.submit({ startAt: 'P30D' }, 'later')), id)
      const task = await other.engine.read(id)
      assert.ok(
        task?.startAt !== undefined && task.expiresAt - task.startAt > 6 * 86_400_000,
        'a week, which is `pendingMs`, follows its start',
      )
      // The key is part of the task, so it has no other end.
      assert.deepEqual(await other.engine.readByKey(task.key ?? ''), task)
    })

    test('a retry during the cleanup of the failed run keeps the key, the input and the checkpoint as long as the task', async (t) => {
      const {
        sites: [site],
        ran,
      } = await openSites(t, url, 1, { concurrency: 16 })
      await Promise.all(
        Array.from({ length: 16 }, async (_, n) => {
          const id = idOf(await site.submit({ fails: 1, cleanUpMs: n }, `key-${String(n)}`))
          // As soon as the failure can be seen.
          await eventually(
            async () => (await site.ask('POST', `/tasks/${id}/retry`)).status === 202,
            60_000,
            'the retry is accepted',
          )
          await ends(site, id)
          const runs = ran.filter(({ taskId }) => taskId === id)
          assert.deepEqual(
            runs.map(({ input, checkpoint }) => [input.cleanUpMs, checkpoint]),
            [
              [n, undefined],
              [n, 1],
            ],
          )
          assert.equal(idOf(await site.submit({ fails: 1, cleanUpMs: n }, `key-${String(n)}`)), id)
          const task = await site.engine.read(id)
          // A day is the default of `retentionMs`.
          assert.ok(
            task?.finishedAt !== undefined && task.expiresAt - task.finishedAt > 86_000_000,
            'the task lives for a day',
          )
          assert.equal((await site.engine.readByKey(task.key ?? ''))?.id, id)
        }),
      )
    })

    for (const round of ['its first round', 'redelivery'] as const) {
      test(`a callback is sent in ${round}, although a call of the engine fails or loses its reply`, async (t) => {
        const { url: callbackUrl, seen } = await receiver(t)
        const { sites: [site] } = await openSites(t, url, 1)
        for (const fault of ['failed', 'lost'] as const) {
          for (let at = 1; at <= 4; at++) {
            const before = seen.length
            const harm = (): void => {
              let calls = 0
              site.next = (call) => (call === 'change' && ++calls === at ? fault : undefined)
            }
            if (round === 'its first round') harm()
            const id = idOf(await site.submit({ callbackUrl }))
            const delivered = (): Promise<void> => eventually(async () => {
              const task = await site.engine.read(id)
              return task !== undefined && isFinalStatus(task.status) && task.callbackAt === undefined
            }, 20_000, `the callback ends (${fault}, ${String(at)})`)
            await delivered()
            if (round === 'redelivery') {
              harm()
              let status = 0
              do ({ status } = await site.ask('POST', `/tasks/${id}/callback`)); while (status === 503)
              // A repetition meets the round that it has begun itself.
              assert.ok([202, 409].includes(status), String(status))
              await delivered()
            }
            site.next = () => undefined
            assert.equal((await site.tasks.get(id))?.callback?.state, 'delivered')
            assert.ok(seen.length > before + (round === 'redelivery' ? 1 : 0), 'the receiver has got it')
          }
        }
      })
    }

    test('maxPerOwner rejects nothing while the owner has no unfinished task, although replies are lost', async (t) => {
      const {
        sites: [site, other = site],
      } = await openSites(t, url, 2, { maxPerOwner: 1 })
      for (const call of ['create', 'change'] as const) {
        for (const fault of ['failed', 'lost'] as const) {
          let calls = 0
          site.next = (name) => (name === call && ++calls === 1 ? fault : undefined)
          await site.submit({ ms: 20 })
          const unfinished = async (): Promise<number> =>
            (await other.engine.list({ of: 'all', statuses: ['queued', 'processing'], order: 'oldest', limit: 10 }))
              .length
          await eventually(async () => (await unfinished()) === 0, 15_000, 'the task ends')
          const { status } = await other.submit()
          assert.equal(status, 202, `${call} ${fault}`)
          await eventually(async () => (await unfinished()) === 0, 15_000, 'the next task ends')
        }
      }
    })

    test('an old run does not touch a new task with its id', async (t) => {
      const { sites: [site] } = await openSites(t, url, 1)
      for (const end of ['cancelled', 'completed'] as const) {
        const id = `order-${end}`
        let lost = 0
        site.next = (call) => (call === 'change' && end === 'completed' && lost++ === 0 ? 'lost' : undefined)
        await site.tasks.submit(site.work, { ms: end === 'cancelled' ? 500 : 0 }, { id })
        if (end === 'cancelled') {
          // The run does not listen to its signal, so it ends while the new task runs.
          await eventually(async () => (await site.tasks.get(id))?.startedAt !== undefined, 15_000, 'the old task runs')
          await site.tasks.cancel(id)
        } else {
          // The reply of its end is lost, so the end is written again while the new task runs.
          await ends(site, id)
        }
        assert.equal(await site.tasks.delete(id), true)
        await site.tasks.submit(site.work, { ms: 1000 }, { id })
        await pause(700)
        assert.equal((await site.tasks.get(id))?.status, 'processing')
        await ends(site, id)
      }
    })

    test('a task of a new owner starts before 40 waiting tasks of another owner, after at most as many as there are places', async (t) => {
      const concurrency = 4
      const {
        sites: [site],
        ran,
      } = await openSites(t, url, 1, { concurrency })
      const ann = await Promise.all(Array.from({ length: 40 + concurrency }, () => site.submit({ ms: 100 })))
      for (const { status } of ann) assert.equal(status, 202)
      const began = ran.length
      const bob = idOf(await site.submit({ ms: 0 }, undefined, 'bob'))
      await ends(site, bob)
      const between = ran.findIndex(({ taskId }) => taskId === bob) - began
      // Some may have begun while the request was under way.
      assert.ok(between <= 2 * concurrency, `${String(between)} tasks began before it`)
    })
  })
}
