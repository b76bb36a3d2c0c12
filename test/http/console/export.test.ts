// longhaul/console in applications of its users: the page and its API under every framework, without a browser.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { describe, test } from 'node:test'
import { createTasks, defineTask, jsonSchema, type Handler, type HttpRequest } from 'longhaul'
import { consolePage, taskConsole } from 'longhaul/console'
import { memory } from 'longhaul/memory'
import { retryTasks } from 'longhaul/operators'
import { partialResults } from 'longhaul/partial'
import { HOSTS, type Host } from '../kit/hosts.js'

interface Context { readonly user?: unknown }

const nameOf = (user: unknown): string | undefined => (user as { name?: string } | undefined)?.name

const asking = defineTask({
  name: 'asking',
  asks: { go: jsonSchema<boolean>({ type: 'boolean' }) },
  run: async (_: object, { ask }) => ({ go: await ask('go', { message: 'Go?' }) }),
})
const failing = defineTask({ name: 'failing', run: () => { throw new Error('On purpose.') } })

/** Tasks of all, and a console in which Ann, who is the user of all hosts, is an operator if `isOperator`. */
function consoleOf(isOperator = true) {
  const retries = retryTasks()
  const tasks = createTasks({ ...memory(), definitions: [asking, failing, retries], onError: () => undefined })
  const handler: Handler<Context> = taskConsole(tasks, {
    owner: ({ context }: HttpRequest<Context>) => nameOf(context.user),
    operator: ({ context }) => isOperator && nameOf(context.user) === 'ann', retries, title: 'Our <tasks>',
  })
  return { tasks, handler }
}

/** JSON whose properties the tests read. */
type Fields = ReturnType<typeof JSON.parse>

async function jsonOf(url: string, init?: RequestInit): Promise<Fields> {
  const response = await fetch(url, init)
  assert.equal(response.status, 200, `${url}: ${response.status}`)
  return response.json()
}

/** Runs `use` with the URL of a handler that a host has at /api. */
async function mounted(host: Host, handler: Handler<Context>, use: (url: string) => Promise<void>): Promise<void> {
  const { url, close } = await host.start({ handler })
  try {
    await use(`${url}/api`)
  } finally {
    await close()
  }
}

for (const host of HOSTS) {
  describe(`the console under ${host.name}`, () => {
    test('serves its page, and each file that the page names, below the mount path', async () => {
      await mounted(host, consoleOf().handler, async (url) => {
        // A wildcard route of Fastify does not match the path without the slash.
        const response = await fetch(host.name === 'Fastify, raw' ? `${url}/` : url)
        assert.equal(response.status, 200)
        assert.match(response.headers.get('content-security-policy') ?? '', /^default-src 'none'; script-src 'self'; /)
        const page = await response.text()
        assert.match(page, /<title>Our &lt;tasks><\/title>/)
        const paths = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path ?? '')
        assert.ok(paths.length > 8 && paths.every((path) => path.startsWith('/api/')), paths.join(', '))
        for (const path of paths) assert.equal((await fetch(new URL(path, url))).status, 200, path)
      })
    })

    test('has an API for the owner and for operators, which answers, retries and deletes', async () => {
      const { tasks, handler } = consoleOf()
      await mounted(host, handler, async (url) => {
        const mine = await tasks.ownedBy('ann').submit(asking, {})
        const other = await tasks.ownedBy('bob').submit(failing, undefined)
        const wait = { headers: { prefer: 'wait=20' } }
        await jsonOf(`${url}/api/operator/tasks/${other.taskId}`, wait)
        assert.deepEqual(await jsonOf(`${url}/api/access`), { operator: true })
        const { items } = await jsonOf(`${url}/api/tasks`)
        assert.deepEqual(items.map(({ taskId }: { taskId: string }) => taskId), [mine.taskId])
        await jsonOf(`${url}/api/tasks/${mine.taskId}`, wait)
        const json = { 'content-type': 'application/json' }
        await jsonOf(`${url}/api/tasks/${mine.taskId}/input`, { method: 'POST', headers: json, body: '{"go": true}' })
        assert.deepEqual((await jsonOf(`${url}/api/tasks/${mine.taskId}`, wait)).result, { go: true })

        const all = `${url}/api/operator`
        assert.equal((await jsonOf(`${all}/overview`)).counts.failed.count, 1)
        assert.deepEqual((await jsonOf(`${all}/pools`)).items.map(({ pool }: { pool: string }) => pool), ['default'])
        const { failure } = await jsonOf(`${all}/tasks/${other.taskId}`)
        assert.equal(failure.error.message, 'On purpose.')
        const retried = await fetch(`${all}/tasks/retry?status=failed`, { method: 'POST' })
        assert.equal(retried.status, 202)
        assert.match(retried.headers.get('location') ?? '', /^\/api\/api\/operator\/tasks\//)
      })
      await tasks.close({ drainMs: 0 })
    })
  })
}

describe('the console', () => {
  const [host] = HOSTS as readonly [Host, ...Host[]]

  test('hides the operators view from other users, and says so without an error', async () => {
    await mounted(host, consoleOf(false).handler, async (url) => {
      assert.deepEqual(await jsonOf(`${url}/api/access`), { operator: false })
      for (const path of ['overview', 'pools', 'tasks', 'tasks/x']) {
        assert.equal((await fetch(`${url}/api/operator/${path}`)).status, 403, path)
      }
    })
  })

  test('rejects changes that a page of another site sends', async () => {
    const { tasks, handler } = consoleOf()
    await mounted(host, handler, async (url) => {
      const { taskId } = await tasks.ownedBy('ann').submit(asking, {})
      const headers = { 'sec-fetch-site': 'cross-site', 'origin': 'https://evil.example' }
      const response = await fetch(`${url}/api/tasks/${taskId}`, { method: 'DELETE', headers })
      assert.equal(response.status, 403)
      assert.equal((await response.json() as { code: string }).code, 'cross_site')
    })
    await tasks.close({ drainMs: 0 })
  })

  test('has the pause of a pool for operators, and for nobody else', async () => {
    for (const isOperator of [true, false]) {
      const { tasks, handler } = consoleOf(isOperator)
      await mounted(host, handler, async (url) => {
        const pause = (method: string) => fetch(`${url}/api/operator/pause?pool=default`, { method })
        assert.equal((await pause('PUT')).status, isOperator ? 204 : 403)
        assert.equal((await tasks.pools())[0]?.isPaused, isOperator)
        assert.equal((await pause('DELETE')).status, isOperator ? 204 : 403)
        assert.equal((await tasks.pools())[0]?.isPaused, false)
      })
      await tasks.close({ drainMs: 0 })
    }
  })

  test('serves the partial results of the own tasks of the user', async () => {
    const storage = memory()
    const words = partialResults<string>({ store: storage.store })
    const tell = defineTask({
      name: 'tell', external: words.external,
      run: words.run(async (_: object, { emit }) => { for (const word of ['Once', 'upon']) await emit(word) }),
    })
    const tasks = createTasks({ ...storage, definitions: [tell, failing], onError: () => undefined })
    const handler = taskConsole<Context>(tasks, {
      owner: ({ context }: HttpRequest<Context>) => nameOf(context.user), partialResults: words,
    })
    await mounted(host, handler, async (url) => {
      const page = (await (await fetch(url)).text()).replaceAll('&quot;', '"')
      assert.match(page, /"partialResults":\["tell"\]/)
      const [own, other] = [await tasks.ownedBy('ann').submit(tell, {}), await tasks.ownedBy('bob').submit(tell, {})]
      for (const { taskId } of [own, other]) await tasks.wait(taskId, { timeoutMs: 20_000 })
      const { results } = await jsonOf(`${url}/api/tasks/${own.taskId}/partial-results`)
      assert.deepEqual(results.map(({ value }: { value: string }) => value), ['Once', 'upon'])
      assert.equal((await fetch(`${url}/api/tasks/${other.taskId}/partial-results`)).status, 404)
    })
    await tasks.close()
    assert.throws(() => taskConsole(tasks, { operator: () => true, partialResults: words }), /partialResults needs owner/)
  })

  test('makes the digest of a file once, and a browser that has the file gets a 304', async (t) => {
    const { tasks, handler } = consoleOf()
    await mounted(host, handler, async (url) => {
      const first = await fetch(`${url}/main.js`)
      const etag = first.headers.get('etag') ?? ''
      assert.match(etag, /^(?:W\/)?"[^"]+"$/)
      const hash = t.mock.method(crypto, 'createHash')
      syncBuiltinESMExports()
      const again = await fetch(`${url}/main.js`, { headers: { 'if-none-match': etag } })
      assert.deepEqual([again.status, hash.mock.callCount()], [304, 0])
      hash.mock.restore()
      syncBuiltinESMExports()
    })
    await tasks.close()
  })

  test('declines paths that it does not know', async () => {
    await mounted(host, consoleOf().handler, async (url) => {
      for (const path of ['x.js', 'page.html', 'session.html', 'api/none', '..%2fpackage.json', '__proto__', 'constructor']) {
        const { status } = await fetch(`${url}/${path}`)
        assert.ok(status === 404 || status === 400, `${path}: ${status}`)
      }
    })
  })

  test('has no panel of own tasks without an owner, and none for operators without an operator', async () => {
    const tasks = createTasks({ ...memory(), definitions: [asking] })
    const page = async (options: object): Promise<string> => {
      let text = ''
      await mounted(host, taskConsole(tasks, options), async (url) => { text = await (await fetch(url)).text() })
      return text
    }
    const [own, all] = [await page({ owner: () => 'ann' }), await page({ operator: () => true })]
    assert.deepEqual([/id="tasks"/.test(own), /id="operator"/.test(own)], [true, false])
    assert.deepEqual([/id="tasks"/.test(all), /id="operator"/.test(all)], [false, true])
    await tasks.close()
  })

  test('names what is missing when it is constructed', () => {
    const tasks = createTasks({ ...memory(), definitions: [asking] })
    assert.throws(() => taskConsole(tasks, {}), /^TypeError: taskConsole: pass owner, operator, or both/)
    assert.throws(() => consolePage({}), /^TypeError: consolePage: name the path of tasks, of operators, or of both$/)
    assert.throws(() => consolePage({ tasks: 'api/tasks' }), /tasks must be a path that begins with a slash/)
  })
})
