// Many bodies of one caller at once, behind a slow repository.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { bulkCreate } from '../../../src/bulk/create.js'
import { ask, people, type Asked, type Draft, type Told } from '../kit/bulk.js'

/** A handler whose repository waits for `open`. */
function slow(options: object = {}) {
  let open = (): void => undefined
  const gate = new Promise<void>((resolve) => { open = resolve })
  const state = { calls: 0, open }
  const repository = {
    createMany: async (drafts: readonly Draft[]) => {
      state.calls++
      await gate
      return drafts.map((_, id) => ({ id }))
    },
  }
  const handler = bulkCreate<object, Draft>({ repository, ...options })
  /** Sends a request often. Resolves once each is refused or waits for the repository. */
  const send = async (asked: Asked, count: number): Promise<{ refused: Told[], rest: Promise<Told[]> }> => {
    const before = state.calls
    const refused: Told[] = []
    const all = Array.from({ length: count }, async () => {
      const told = await ask(handler, asked)
      if (told.status !== 201) refused.push(told)
      return told
    })
    while (state.calls - before + refused.length < count) await new Promise(setImmediate)
    return { refused: [...refused], rest: Promise.all(all) }
  }
  return { handler, state, send }
}

describe('while the repository works', () => {
  test(
    'the decoders of large compressed bodies count for their caller, and keep what they need to the end',
    { timeout: 60_000 },
    async () => {
      const { handler, state, send } = slow({ streamAboveBytes: 100, batchSize: 1 })
      const body = zlib.brotliCompressSync(JSON.stringify(people(10)), {
        params: { [zlib.constants.BROTLI_PARAM_LGWIN]: 22 },
      })
      const asked: Asked = { body, headers: { 'content-encoding': 'br' } }
      const { refused, rest } = await send(asked, 40)
      assert.deepEqual(
        new Set(refused.map((told) => `${told.status} ${told.json.code} ${String(told.headers['retry-after'])}`)),
        new Set(['429 too_many_requests 1']),
      )
      assert.ok(state.calls >= 4 && state.calls <= 15, `${state.calls} decoders`)
      state.open()
      const written = (await rest).filter(({ status }) => status === 201)
      assert.equal(written.length, 40 - refused.length)
      assert.ok(written.every(({ json }) => json.summary.succeeded === 10))
      for (let at = 0; at < 20; at++) assert.equal((await ask(handler, asked)).status, 201)
    },
  )

  test('a small compressed body needs no decoder', { timeout: 60_000 }, async () => {
    const { state, send } = slow()
    const body = zlib.brotliCompressSync(JSON.stringify(people(10)), {
      params: { [zlib.constants.BROTLI_PARAM_LGWIN]: 22 },
    })
    const { refused, rest } = await send({ body, headers: { 'content-encoding': 'br' } }, 40)
    assert.deepEqual([refused.length, state.calls], [0, 40])
    state.open()
    await rest
  })
})
