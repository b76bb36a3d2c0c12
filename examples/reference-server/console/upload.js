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
  const [chosen] = file.files
  if (chosen) void sendChosen(chosen)
  else void sendLines(new Blob([text.value]))
})
file.addEventListener('change', nameButton)
byId('upload-example').addEventListener('click', () => {
  file.value = ''
  nameButton()
  text.value = EXAMPLE
})
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
  const { files } = event.dataTransfer
  const pasted = event.dataTransfer.getData('text')
  if (files.length > 0) file.files = files
  else if (pasted !== '') text.value = pasted
  nameButton()
})

void whileBusy(continueEarlier)

/** Says on the button what it uploads: the chosen file, or the lines. */
function nameButton() {
  submit.textContent = file.files.length > 0 ? 'Upload the file' : 'Upload the lines'
}

/** Sends a file in parts, whose upload resumes. */
function sendChosen(chosen) {
  return whileBusy(async () => {
    const report = await sendFile(chosen, byId('upload-background').checked)
    file.value = ''
    nameButton()
    if (report === undefined) tellCancelled()
    return report
  })
}

/** Sends pasted lines in one request. */
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
    const result = await work()
    if (result) show(result)
  } catch (error) {
    showError(byId('upload-error'), error)
  } finally {
    setBusy(submit, false)
  }
}

function tellCancelled() {
  fill(report, h('p', {}, 'The upload was cancelled. The lines that were read before stay.'))
}

const request = (body) => ({ body, signal: stop.signal, headers: { 'content-type': 'application/x-ndjson' } })

async function direct(body) {
  return (await ask('POST', '/upload-ndjson', request(body))).json()
}

/** Sends lines that the server reads in a task, which has a progress. */
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
  const told = failed > items.length ? ` The table has the first ${items.length} lines that failed.` : ''
  fill(report, h('p', { class: failed === 0 ? 'good' : 'warn' }, h('strong', {}, message), told))
  document.dispatchEvent(new Event('users'))
  if (items.length === 0) return
  fill(byId('upload-lines'), table('Lines that failed', ['Line', 'What is wrong', 'Begins with'], items.map(({ line, error: { code, message: why, excerpt, details } }) => h('tr', {},
    h('td', { class: 'number' }, String(line)),
    h('td', {}, h('code', {}, code), h('br'), why, detailList(details)),
    h('td', {}, h('code', { class: 'excerpt' }, excerpt ?? ''))))))
}
