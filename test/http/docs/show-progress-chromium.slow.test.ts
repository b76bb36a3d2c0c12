// The samples of the guide "Show progress in a web page", in Chromium, against a server of the package.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { after, afterEach, before, describe, test } from 'node:test'
import { build } from 'esbuild'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints, type Tasks } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import type { Browser, Page } from 'playwright-core'
import { listen } from '../../kit/listen.js'
import { openBrowser } from '../../servers/chromium.js'
import { blocks } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

const guide = readFileSync(join(root, 'docs/guide/show-progress.md'), 'utf8')
const [plain = ''] = blocks(guide, 'js')
const [markup = ''] = blocks(guide, 'html')
const [component = ''] = blocks(guide, 'jsx')

/** Mounts the component in strict mode, with a task that it submits, and removes it on demand. */
const MOUNT = `
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
const root = createRoot(document.querySelector('main'))
globalThis.unmount = () => { root.unmount() }
client.submit('/reports', { ask: true }).then((task) => {
  root.render(<StrictMode><Report task={task} /></StrictMode>)
})
`

async function bundled(contents: string): Promise<string> {
  const { outputFiles: [file] } = await build({
    stdin: { contents, resolveDir: root, loader: 'jsx' }, bundle: true, write: false, format: 'esm', jsx: 'automatic',
    platform: 'browser', target: 'es2022', tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
    define: { 'process.env.NODE_ENV': '"development"' },
  })
  return file?.text ?? ''
}

/** Lets the task that runs end. */
let release: (() => void) | undefined
const report = defineTask({
  name: 'report', input: jsonSchema<{ ask?: boolean }>({ type: 'object' }),
  asks: { approve: jsonSchema<boolean>({ type: 'boolean' }) },
  run: async (input, { ask, progress }) => {
    if (input.ask === true) await ask('approve', { message: 'Approve it' })
    progress(3, 10)
    await new Promise<void>((resolve) => { release = resolve })
    return { message: 'The report is ready.' }
  },
})

let browser: Browser
let server: Server
let tasks: Tasks
let url = ''
let stop: () => Promise<void>
const streams = new Set<object>()
const problems: string[] = []

before(async () => {
  const files = new Map([
    ['/', ['text/html', `<!doctype html><title>Plain</title>${markup}`]],
    ['/page.js', ['text/javascript', await bundled(plain)]],
    ['/react', ['text/html', '<!doctype html><title>React</title><main></main><script type="module" src="react.js"></script>']],
    ['/react.js', ['text/javascript', await bundled(component + MOUNT)]],
    ['/favicon.ico', ['image/png', '']],
  ])
  tasks = createTasks({ ...memory(), definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handle = toNode(router({
    'POST /reports': endpoints.submit(report), 'GET|DELETE /tasks/{id}': endpoints.status,
    'POST /tasks/{id}/input': endpoints.input,
  }))
  server = createServer((req, res) => {
    const [type, text] = files.get(req.url ?? '') ?? []
    if (type !== undefined) return void res.setHeader('content-type', `${type}; charset=utf-8`).end(text)
    if (req.headers.accept?.startsWith('text/event-stream')) {
      streams.add(res)
      res.once('close', () => { server.emit('stream closed', streams.delete(res)) })
    }
    handle(req, res)
  })
  ;({ url, close: stop } = await listen(server))
  browser = await openBrowser()
})
after(async () => {
  await browser?.close()
  await stop?.()
  await tasks?.close({ drainMs: 0 })
})
afterEach(() => { assert.deepEqual(problems.splice(0), []) })

async function open(path: string): Promise<Page> {
  const page = await browser.newPage()
  page.on('pageerror', (error) => problems.push(error.message))
  await page.goto(url + path)
  return page
}

describe('the guide to progress in a web page', () => {
  test('its plain page shows progress, continues after a reload and a broken connection, and shows the result', async () => {
    const page = await open('/')
    await page.getByRole('button').click()
    await page.locator('progress[value="3"][max="10"]').waitFor()
    await page.reload()
    await page.locator('progress[value="3"][max="10"]').waitFor()
    server.closeAllConnections()
    release?.()
    await page.getByText('The report is ready.').waitFor()
    assert.equal(await page.locator('progress').isVisible(), false)
    await page.close()
  })

  test('its React component asks, shows progress and the result', async () => {
    const page = await open('/react')
    await page.getByRole('button', { name: 'Approve it' }).click()
    await page.locator('progress[value="3"][max="10"]').waitFor()
    assert.equal(await page.getByRole('button').count(), 0)
    release?.()
    await page.getByText('The report is ready.').waitFor()
    await page.close()
  })

  test('its React component ends the connection when it is removed', async () => {
    const page = await open('/react')
    await page.getByRole('button', { name: 'Approve it' }).waitFor()
    await page.evaluate('unmount()')
    while (streams.size > 0) await new Promise((resolve) => { server.once('stream closed', resolve) })
    await page.close()
  })
})
