// The picture of docs/guide/show-progress.md: the page of the guide at first, while its task runs, and at its end.
import { createServer } from 'node:http'
import { join } from 'node:path'
import { build } from 'esbuild'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import type { Browser } from 'playwright-core'
import { listen } from '../kit/listen.js'
import { guidePage } from './sources.js'

const root = join(import.meta.dirname, '..', '..')
const STEPS = ['At first', 'While the task runs', 'At its end']
const STYLE = 'body { margin: 12px; font: 16px sans-serif } p { margin: 8px 0 0 }'
const OVERVIEW = `<!doctype html><style>body { display: flex; gap: 12px; margin: 8px; font: 14px sans-serif; width: max-content }
  figure { margin: 0 } figcaption { margin-bottom: 4px } iframe { width: 236px; height: 100px; border: 1px solid #888 }</style>
  ${STEPS.map((step) => `<figure><figcaption>${step}</figcaption><iframe></iframe></figure>`).join('')}`

/** Makes the picture. The first task stays at a third, and the second one ends at once. */
export async function pictureOfProgress(browser: Browser, path: string): Promise<void> {
  let runs = 0
  const report = defineTask({
    name: 'report',
    run: async (_: unknown, { progress, signal }) => {
      if (++runs > 1) return { message: 'The report is ready.' }
      progress(4, 12)
      await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
      return undefined
    },
  })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handle = toNode(router({ 'POST /reports': submit(report), 'GET|DELETE /tasks/{id}': status }))
  const files = new Map([
    ['/', ['text/html', OVERVIEW]],
    ['/page', ['text/html', `<!doctype html><meta charset="utf-8"><style>${STYLE}</style>${guidePage.markup}`]],
    ['/page.js', ['text/javascript', await bundled()]],
  ])
  const { url, close } = await listen(createServer((req, res) => {
    const [type, text] = files.get(req.url ?? '') ?? []
    if (type === undefined) handle(req, res)
    else res.setHeader('content-type', `${type}; charset=utf-8`).end(text)
  }))
  const page = await browser.newPage({ viewport: { width: 900, height: 300 } })
  try {
    await page.goto(url)
    const frames = page.locator('iframe')
    for (const [at, said] of ['', 'processing', 'The report is ready.'].entries()) {
      // Only a page that is loaded with a saved task continues it.
      await page.evaluate('sessionStorage.clear()')
      await frames.nth(at).evaluate((frame) => new Promise((loaded) => {
        frame.addEventListener('load', loaded)
        frame.setAttribute('src', '/page')
      }))
      const frame = frames.nth(at).contentFrame()
      if (said === '') continue
      await frame.locator('button').click()
      await frame.locator('p', { hasText: said }).waitFor()
      if (said === 'processing') await frame.locator('progress[value="4"]').waitFor()
    }
    await page.locator('body').screenshot({ path })
  } finally {
    await page.close()
    await close()
    await tasks.close({ drainMs: 0 })
  }
}

async function bundled(): Promise<string> {
  const { outputFiles: [file] } = await build({
    stdin: { contents: guidePage.script, resolveDir: root }, bundle: true, write: false, format: 'esm', platform: 'browser',
    target: 'es2022', tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
  })
  return file?.text ?? ''
}
