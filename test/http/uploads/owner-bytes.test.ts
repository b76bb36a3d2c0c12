// Two instances over one store share the bytes of an owner.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setUp } from '../../unit/kit/uploads.js'
import { sharedStorages } from '../kit/shared-storages.js'

const kinds = await sharedStorages()

for (const [name, open] of Object.entries(kinds)) {
  describe(`maxBytesPerOwner on ${name}`, () => {
    test('is counted by two instances together, and one may use what the other frees', async () => {
      const [first, second] = [open(), open()].map((storage) => (
        setUp({ ...storage, maxBytesPerOwner: 1000 })
      )) as [ReturnType<typeof setUp>, ReturnType<typeof setUp>]
      const head = { 'x-user': 'ann', 'upload-complete': '?0', 'upload-length': '100' }
      // On a busy machine, a request that has lost many compare-and-sets gets a 503 with Retry-After.
      const createAt = async (at: number) => {
        for (;;) {
          const response = await (at % 2 === 0 ? first : second).send('POST', '/files', head)
          if (response.status !== 503) return response
          assert.ok(response.headers['retry-after'])
        }
      }
      const answers = await Promise.all(Array.from({ length: 20 }, (_, at) => createAt(at)))
      const made = answers.filter(({ status }) => status === 201)
      assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(10).fill(201), ...Array(10).fill(429)])
      assert.equal((await second.send('POST', '/files', { ...head, 'x-user': 'bob' })).status, 201)
      const path = String(made[0]?.headers['location'])
      assert.equal((await first.send('DELETE', path, { 'x-user': 'ann' })).status, 204)
      assert.equal((await second.send('POST', '/files', head)).status, 201)
    })
  })
}
