import { ask, client } from './api.js'
import { byId, fill, h, isBusy, setBusy, table } from './dom.js'
import { detailList, showError } from './errors.js'
import { continueEarlier, sendFile } from './file-upload.js'

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
  void sendLines(new Blob([text.value]))
})
file.addEventListener('change', () => {
  const [chosen] = file.files
  if (chosen) void sendChosen(chosen).then(() => { file.value = '' })
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
  if (dropped) void sendChosen(dropped)
  else if (pasted !== '') text.value = pasted
})

void whileBusy(continueEarlier)

/** A file is sent in parts that resume. */
function sendChosen(chosen) {
  return whileBusy(async () => {
    const answer = await sendFile(chosen, byId('upload-background').checked)
    if (answer === undefined) tellCancelled()
    return answer
  })
}

/** Pasted lines are one request. */
function sendLines(body) {
  return whileBusy(async () => {
    stop = new AbortController()
    cancel.hidden = false
    fill(report, h('p', {}, `Sending ${body.size} bytes …`))
    try {
      return await (byId('upload-background').checked ? inBackground(body) : direct(body))
    } catch (error) {
      fill(report)
      if (!stop.signal.aborted) throw error
      tellCancelled()
      return undefined
    } finally {
      if (document.activeElement === cancel) submit.focus()
      cancel.hidden = true
    }
  })
}

/** Runs one upload at a time, and shows its report or its error. */
async function whileBusy(work) {
  if (isBusy(submit)) return
  setBusy(submit, true)
  showError(byId('upload-error'))
  fill(byId('upload-lines'))
  fill(report)
  try {
    const answer = await work()
    if (answer) show(answer)
  } catch (error) {
    showError(byId('upload-error'), error)
  } finally {
    setBusy(submit, false)
  }
}

function tellCancelled() {
  fill(report, h('p', {}, 'The upload was cancelled; what was read before stays.'))
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

function show({ message, summary, items = [] }) {
  const { failed = items.length } = summary ?? {}
  const told = failed > items.length ? ` The table has the first ${items.length} of those that failed.` : ''
  fill(report, h('p', { class: failed === 0 ? 'good' : 'warn' }, h('strong', {}, message), told))
  document.dispatchEvent(new Event('users'))
  if (items.length === 0) return
  fill(byId('upload-lines'), table('Lines that failed', ['Line', 'What is wrong', 'Begins with'], items.map(({ line, error: { code, message: why, excerpt, details } }) => h('tr', {},
    h('td', { class: 'number' }, String(line)),
    h('td', {}, h('code', {}, code), h('br'), why, detailList(details)),
    h('td', {}, h('code', { class: 'excerpt' }, excerpt ?? ''))))))
}
