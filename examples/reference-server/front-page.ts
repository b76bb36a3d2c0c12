import { describe, fields, operation, response, type Handler } from 'longhaul'

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>longhaul reference server</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .75rem; background: #f4f4f4; color: #222 }
td { padding: .15rem 1rem .15rem 0; vertical-align: top }
</style>
<h1>longhaul reference server</h1>
<p>Work that outlives a request. All but this page needs a bearer token: reads a <code>reader</code>, changes a <code>writer</code>.
<table>
<tr><td><code>POST /api/long-running-task</code><td>Does a task: <code>{"task": "…", "data": {…}}</code>; with <code>Prefer: respond-async</code> in the background
<tr><td><code>GET /api/status/{id}</code><td>Shows it: poll, long poll (<code>Prefer: wait=20</code>) or events (<code>Accept: text/event-stream</code>)
<tr><td><code>DELETE /api/status/{id}</code><td>Cancels it
<tr><td><code>POST /start-job</code><td>Queues a job: <code>{"task": "…", …}</code>, or nothing
<tr><td><code>GET /job-status/{id}</code><td>Shows it
<tr><td><code>DELETE /job-status/{id}</code><td>Cancels it
<tr><td><code>POST /start-task</code><td>Processes <code>{"taskData": "…"}</code> and tells <code>callbackUrl</code>, where there is one
<tr><td><code>GET /task-status/{id}</code><td>Shows it
</table>
<p>Tasks: <code>wait</code> takes <code>ms</code> and <code>fail</code>; <code>checksum</code> reads a file of 64 MiB;
<code>export-users</code> takes a <code>role</code>, or none.
<pre>curl -i -H 'Authorization: Bearer demo-writer' -H 'Prefer: respond-async' \\
  --json '{"task": "wait", "data": {"ms": 5000}}' ORIGIN/api/long-running-task</pre>
`

/** The front page: what is here, and something to paste. */
export const frontPage: Handler = describe(({ headers }) => ({
  status: 200,
  headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache', 'vary': 'Host' },
  body: PAGE.replace('ORIGIN', `http://${hostOf(headers['host'])}`),
}), [operation('GET', {
  summary: 'The front page',
  responses: { 200: response('A page', { headers: fields('Cache-Control', 'Vary'), schema: { type: 'string' }, mediaTypes: ['text/html'] }) },
})])

/** The client chooses this field, and it ends up in a page. */
function hostOf(field: string | string[] | undefined): string {
  return typeof field === 'string' && /^[A-Za-z0-9.:[\]-]{1,255}$/.test(field) ? field : '127.0.0.1:3000'
}
