// Entries that are replaced in one turn share a statement. One that cannot be replaced must not affect the others.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { postgres, type PostgresPoolClient } from 'longhaul/postgres'
import pg from 'pg'
import type { Created, Replaced } from '../../../../src/stores/store.js'
import { postgresForFile } from '../../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
const { store } = postgres({ pool })
after(async () => {
  await store.close()
  await pool.end()
})

const LIFE = { ttlMs: 60_000 }

async function create(...keys: string[]): Promise<string[]> {
  const created = await Promise.all(keys.map((key) => store.create(key, 'old', LIFE)))
  return created.map((each) => (each as Created).revision)
}

async function valuesOf(...keys: string[]): Promise<(string | undefined)[]> {
  return (await Promise.all(keys.map((key) => store.get(key)))).map((entry) => entry?.value)
}

describe('entries that are replaced in one turn', () => {
  test('are replaced by one statement, with and without a new expiry', async () => {
    const [one = '', two = ''] = await create('one', 'two')
    const before = await server.query('SELECT expires_at FROM longhaul.entries WHERE key = \'two\'')
    const statements: string[] = []
    await withClient((client, text, values) => {
      statements.push(text)
      return client.query(text, values)
    }, async (counted) => {
      await Promise.all([
        counted.replace('one', 'new', one, { ttlMs: 2_000_000 }),
        counted.replace('two', 'new', two, {}),
      ])
    })
    const updates = statements.filter((text) => /UPDATE \S+\.entries/.test(text))
    assert.equal(updates.length, 1, updates.join('\n'))
    assert.deepEqual(await valuesOf('one', 'two'), ['new', 'new'])
    const [longer] = await server.query('SELECT expires_at > clock_timestamp() + interval \'1900 s\' AS ok FROM longhaul.entries WHERE key = \'one\'')
    assert.deepEqual(longer, { ok: true })
    assert.deepEqual(await server.query('SELECT expires_at FROM longhaul.entries WHERE key = \'two\''), before)
  })

  test('are replaced beside one that another process has changed', async () => {
    const [mine = ''] = await create('mine', 'changed')
    const [changed, replaced, missing] = await Promise.all([
      store.replace('changed', 'new', 'another revision', LIFE), store.replace('mine', 'new', mine, LIFE),
      store.replace('missing', 'new', 'a revision', LIFE),
    ])
    assert.ok(!changed.replaced && changed.entry?.value === 'old')
    assert.ok(!missing.replaced && missing.entry === undefined)
    assert.ok(replaced.replaced)
    assert.deepEqual(await valuesOf('mine', 'changed'), ['new', 'old'])
  })

  test('do not wait for one that a transaction of the application has locked', async () => {
    const [locked = '', free = ''] = await create('locked', 'free')
    const client = await pool.connect()
    let isReplaced = false
    let waiting: Promise<unknown>
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul.entries WHERE key = \'locked\' FOR UPDATE')
      waiting = store.replace('locked', 'new', locked, LIFE).then(() => { isReplaced = true })
      await store.replace('free', 'new', free, LIFE)
      assert.equal(isReplaced, false)
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    await waiting
    assert.deepEqual(await valuesOf('locked', 'free'), ['new', 'new'])
  })

  test('two replacements of one entry are one after the other: the second finds a conflict', async () => {
    const [revision = ''] = await create('twice')
    const outcomes = await Promise.all([
      store.replace('twice', 'first', revision, LIFE), store.replace('twice', 'second', revision, LIFE),
    ])
    assert.equal(outcomes.filter(({ replaced }) => replaced).length, 1)
  })

  test('a statement whose reply was lost is sent again, and recognises its own revisions', async () => {
    const [left = '', right = ''] = await create('left', 'right')
    let isCut = false
    await withClient(async (client, text, values) => {
      const reply = await client.query(text, values)
      if (isCut || !text.startsWith('WITH free')) return reply
      isCut = true
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' })
    }, async (cut) => {
      const outcomes = await Promise.all([
        cut.replace('left', 'new', left, LIFE), cut.replace('right', 'new', right, LIFE),
      ])
      assert.ok(isCut && outcomes.every(({ replaced }) => replaced))
      const entry = await store.get('left')
      assert.equal(entry?.revision, (outcomes[0] as Replaced).revision)
    })
  })
})

type RunQuery = (client: PostgresPoolClient, text: string, values: unknown[]) => Promise<unknown>
type TestedStore = ReturnType<typeof postgres>['store']

/** Runs `work` with a store whose statements go through `run`. */
async function withClient(run: RunQuery, work: (store: TestedStore) => Promise<void>): Promise<void> {
  const own = new pg.Pool({ connectionString: server.url })
  const wrapping = {
    on: own.on.bind(own), options: own.options,
    connect: async () => {
      const client = await own.connect()
      return {
        query: (text: string, values: unknown[]) => run(client, text, values),
        release: client.release.bind(client), on: client.on.bind(client),
      }
    },
  }
  const { store: tested } = postgres({ pool: wrapping as never })
  try {
    await work(tested)
  } finally {
    await tested.close()
    await own.end()
  }
}
