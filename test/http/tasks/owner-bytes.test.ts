// Two `createTasks` over one store share the bytes of an owner, with each other and with uploads.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bodyOf, KINDS, piecesOf, setUp } from '../../unit/kit/background-bodies.js'
import { ended } from '../../unit/kit/tasks.js'
import { setUp as setUpUploads } from '../../unit/kit/uploads.js'
import { sharedStorages } from '../kit/shared-storages.js'
import { deferred, eventually } from '../../kit/wait.js'

const kinds = await sharedStorages()

const REFUSED = '429 too_many_bytes'

for (const [name, open] of Object.entries(kinds)) {
  for (const kind of KINDS) {
    describe(`maxBytesPerOwner of ${kind} in the background on ${name}`, () => {
      test('is counted by two instances together, and one instance can use what the other frees', async (t) => {
        const storage = open()
        const [first, second] = [storage, open()].map(({ store, blobs }) => (
          setUp(t, { store, blobs, engine: memory().engine, maxBytesPerOwner: 1000 })
        )) as [ReturnType<typeof setUp>, ReturnType<typeof setUp>]
        const [ann, bob] = [{ user: `ann ${kind}` }, { user: `bob ${kind}` }]

        const [begun, last] = [deferred(), deferred()]
        const slow = async function* () {
          begun.resolve()
          yield* piecesOf(kind, 600, 100, last.promise)
        }
        const arriving = first.send(kind, slow(), { ...ann, headers: { 'content-length': '600' } })
        await begun.promise
        assert.equal(await second.sized(kind, 401, ann), REFUSED)
        assert.equal(await second.sized(kind, 1000, bob), '202')
        last.resolve()
        const { taskId, status } = await arriving
        assert.equal(status, 202)
        assert.equal(await second.sized(kind, 401, ann), REFUSED)

        const answers = await Promise.all(Array.from({ length: 12 }, (_, at) => (
          (at % 2 === 0 ? first : second).sized(kind, 100, ann)
        )))
        const expected = [...Array<string>(4).fill('202'), ...Array<string>(8).fill(REFUSED)]
        assert.deepEqual(answers.sort(), expected)

        const uploads = setUpUploads({ ...storage, maxBytesPerOwner: 1000 })
        const head = { 'x-user': ann.user, 'upload-complete': '?0', 'upload-length': '600' }
        assert.equal((await uploads.send('POST', '/files', head)).status, 429)
        first.go()
        assert.equal((await ended(first.tasks, taskId)).status, 'completed')
        await eventually(async () => (
          (await second.send(kind, bodyOf(kind, 600), ann)).status === 202
        ))
      })
    })
  }
}
