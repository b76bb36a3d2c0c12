import { ask, client } from './api.js'
import { byId, fill, h, isBusy, mebibytes, setBusy, table } from './dom.js'
import { detailList, showError } from './errors.js'

const EXAMPLE = [
  '{"id": 1, "name": "Ada Lovelace"}',
  '{"name": "Grace Hopper", "email": "grace@navy.example"}',
  '{"name": "No address"}',
  '{"name": "Half a line",',
  '["not", "an", "object"]',
  '{"name": "No at sign", "email": "nowhere"}',
].join('\n')

const form = byId('upload-form')
const drop = byId('drop')
const file = byId('upload-file')
const text = byId('upload-text')
const submit = form.querySelector('[type=submit]')
const cancel = byId('upload-cancel')
const report = byId('upload-report')
let stop = new AbortController()

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void send(new Blob([text.value]), 'the pasted lines')
})
file.addEventListener('change', () => {
  const [chosen] = file.files
  if (chosen) void send(chosen, chosen.name).then(() => { file.value = '' })
})
byId('upload-example').addEventListener('click', () => { text.value = EXAMPLE })
cancel.addEventListener('click', () => { stop.abort(new Error('cancelled')) })

for (const kind of ['dragenter', 'dragover']) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault()
    drop.classList.add('over')
  })
}
drop.addEventListener('dragleave', (event) => { if (!drop.contains(event.relatedTarget)) drop.classList.remove('over') })
drop.addEventListener('drop', (event) => {
  event.preventDefault()
  drop.classList.remove('over')
  const [dropped] = event.dataTransfer.files
  const pasted = event.dataTransfer.getData('text')
  if (dropped) void send(dropped, dropped.name)
  else if (pasted !== '') text.value = pasted
})

async function send(body, what) {
  if (isBusy(submit)) return
  stop = new AbortController()
  setBusy(submit, true)
  cancel.hidden = false
  showError(byId('upload-error'))
  fill(byId('upload-lines'))
  fill(report, h('p', {}, `Sending ${what}, ${body.size < 100_000 ? `${body.size} bytes` : mebibytes(body.size)} …`))
  try {
    show(await (byId('upload-background').checked ? inBackground(body) : direct(body)))
  } catch (error) {
    fill(report)
    if (stop.signal.aborted) fill(report, h('p', {}, 'The upload was cancelled; what was read before stays.'))
    else showError(byId('upload-error'), error)
  } finally {
    setBusy(submit, false)
    if (document.activeElement === cancel) submit.focus()
    cancel.hidden = true
  }
}

const request = (body) => ({ body, signal: stop.signal, headers: { 'content-type': 'application/x-ndjson' } })

async function direct(body) {
  return (await ask('POST', '/upload-ndjson', request(body))).json()
}

/** The server reads it as a task, of which it tells how far it is. */
async function inBackground(body) {
  const { headers, ...rest } = request(body)
  const response = await ask('POST', '/upload-ndjson', { ...rest, headers: { ...headers, prefer: 'respond-async' } })
  const task = client.resume({ statusUrl: response.headers.get('location') })
  const bar = h('progress', { max: 100, 'aria-label': 'Progress of the upload' })
  const figures = h('span', { class: 'figures' })
  fill(report, h('div', { class: 'meter' }, bar, figures))
  const { signal } = stop
  const end = () => { void task.cancel().catch(() => undefined) }
  signal.addEventListener('abort', end, { once: true })
  try {
    return await task.result({ signal, onProgress: ({ progress: { done = 0, total = 0 } = {} }) => {
      if (total > 0) bar.value = (done / total) * 100
      figures.textContent = total > 0 ? `${Math.floor((done / total) * 100)} %` : `${done}`
    } })
  } finally {
    signal.removeEventListener('abort', end)
  }
}

function show({ message, summary, errors = [] }) {
  const { failed = errors.length } = summary ?? {}
  const told = failed > errors.length ? ` The table has the first ${errors.length} of those that failed.` : ''
  fill(report, h('p', { class: failed === 0 ? 'good' : 'warn' }, h('strong', {}, message), told))
  document.dispatchEvent(new Event('users'))
  if (errors.length === 0) return
  fill(byId('upload-lines'), table('Lines that failed', ['Line', 'What is wrong', 'Begins with'], errors.map(({ line, code, message: why, excerpt, details }) => h('tr', {},
    h('td', { class: 'number' }, String(line)),
    h('td', {}, h('code', {}, code), h('br'), why, detailList(details)),
    h('td', {}, h('code', { class: 'excerpt' }, excerpt ?? ''))))))
}
