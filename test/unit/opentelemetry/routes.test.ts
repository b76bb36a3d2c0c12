// The route of a request on the span and in the metrics of the real instrumentation of node:http.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { httpRoutes } from '../../../adapters/opentelemetry/index.js'
import { json, router } from '../../../src/index.js'
import { inject } from '../../../src/testing/index.js'

const SERVER = new URL('routes-server.ts', import.meta.url)

interface Seen {
  readonly name: string
  readonly route?: string
}

/** Runs a server under the instrumentation, requests some paths, and returns its spans and the routes of its metric. */
async function seenOf(kind: string): Promise<{ readonly spans: readonly Seen[], readonly routes: readonly string[] }> {
  const child = spawn(process.execPath, ['--import', 'tsx', SERVER.pathname, kind], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => { text += chunk.toString() })
  const [code] = (await once(child, 'close')) as [number]
  assert.equal(code, 0)
  return JSON.parse(text) as Awaited<ReturnType<typeof seenOf>>
}

describe('http.route of the instrumentation of node:http', { concurrency: true }, () => {
  test('is the template of the route below the mount path of Express', async () => {
    const { spans, routes } = await seenOf('express')
    assert.deepEqual(spans, [
      { name: 'GET /api/tasks/{id}', route: '/api/tasks/{id}' },
      { name: 'GET /api/tasks/{id}', route: '/api/tasks/{id}' },
      { name: 'POST /api/reports', route: '/api/reports' },
    ])
    assert.deepEqual(routes, ['/api/reports', '/api/tasks/{id}'])
  })

  test('is the template of the route on node:http, and missing for a path without a route', async () => {
    const { spans, routes } = await seenOf('node')
    assert.deepEqual(spans, [{ name: 'GET /tasks/{id}', route: '/tasks/{id}' }, { name: 'GET' }, { name: 'POST' }])
    assert.deepEqual(routes, ['/tasks/{id}'])
  })
})

describe('httpRoutes', () => {
  const api = router({ 'GET /tasks/{id}': () => json(200, {}), 'POST /reports': () => json(200, {}) })

  test('publishes mount path and template of each route that was found, until it is stopped', async () => {
    const seen: object[] = []
    const stop = httpRoutes({
      routeOf: (event) => {
        seen.push(event)
        return ''
      },
    })
    await inject(api, { path: '/tasks/7' })
    await inject(api, { path: '/nothing' })
    await inject(api, { method: 'POST', path: '/reports' })
    stop()
    await inject(api, { path: '/tasks/8' })
    assert.deepEqual(seen, [
      { method: 'GET', mountPath: '', template: '/tasks/{id}' },
      { method: 'POST', mountPath: '', template: '/reports' },
    ])
  })
})
