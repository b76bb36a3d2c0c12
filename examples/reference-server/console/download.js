import { client } from './api.js'
import { announce, byId, fill, h, mebibytes } from './dom.js'
import { showError } from './errors.js'
import { onToken } from './session.js'
import { pause } from './watching.js'

const PATH = '/api/files/large-file'
const PIECE_BYTES = 4 * 1024 * 1024
const SHOW_MS = 100

const go = byId('download-go')
const again = byId('download-again')
const bar = byId('download-bar')
const state = byId('download-state')
const verdict = byId('download-verdict')
let running
let content
let saved = ''

go.addEventListener('click', () => {
  if (running) running.abort(new Error('paused'))
  else void run()
})
again.addEventListener('click', () => {
  running?.abort(new Error('paused'))
  reset()
  go.focus()
})
onToken(reset)
reset()

function reset() {
  running?.abort(new Error('paused'))
  running = undefined
  if (saved !== '') URL.revokeObjectURL(saved)
  saved = ''
  content = { position: undefined, total: 0, parts: [], piece: [], held: 0 }
  bar.value = 0
  byId('download-figures').textContent = '0 %'
  state.textContent = ''
  go.textContent = 'Start'
  go.hidden = false
  again.hidden = true
  showError(byId('download-error'))
  fill(verdict)
}

async function run() {
  const mine = content
  const controller = new AbortController()
  running = controller
  go.textContent = 'Pause'
  again.hidden = true
  showError(byId('download-error'))
  state.textContent = mine.position ? `Continues at ${mebibytes(mine.position.received)}.` : 'Downloading …'
  const from = mine.position && { from: mine.position }
  const download = client.download(PATH, { ...from, signal: controller.signal, onRestart: () => {
    Object.assign(mine, { parts: [], piece: [], held: 0 })
    announce('The content has changed, so it begins anew.')
  } })
  const began = performance.now()
  let taken = 0
  let shown = 0
  try {
    for await (const bytes of download) {
      hold(mine, bytes)
      mine.position = download.position
      mine.total = download.total ?? 0
      taken += bytes.length
      if (performance.now() - shown > SHOW_MS) shown = show(mine)
      await pace(taken, began, controller.signal)
    }
    show(mine)
    if (content === mine) await finish(mine)
  } catch (error) {
    if (content !== mine) return
    show(mine)
    go.textContent = mine.position ? 'Resume' : 'Start'
    again.hidden = mine.position === undefined
    if (controller.signal.aborted) state.textContent = `Paused at ${mebibytes(mine.position?.received ?? 0)}.`
    else state.textContent = ''
    if (!controller.signal.aborted) showError(byId('download-error'), error)
  } finally {
    if (running === controller) running = undefined
  }
}

/** Waits until the chosen speed allows more. The server does not send what the page does not read. */
async function pace(taken, began, signal) {
  const speed = Number(byId('download-speed').value)
  const early = speed > 0 ? (taken / speed) * 1000 - (performance.now() - began) : 0
  if (early > 4) await pause(early, signal)
}

/** Joins chunks to pieces, which the browser may store on its disk. */
function hold(mine, bytes) {
  mine.piece.push(bytes)
  mine.held += bytes.length
  if (mine.held < PIECE_BYTES) return
  mine.parts.push(new Blob(mine.piece))
  mine.piece = []
  mine.held = 0
}

function show({ position, total }) {
  const received = position?.received ?? 0
  const share = total > 0 ? (received / total) * 100 : 0
  bar.value = share
  byId('download-figures').textContent = `${Math.floor(share)} %, ${mebibytes(received)} of ${total > 0 ? mebibytes(total) : '?'}`
  return performance.now()
}

async function finish(mine) {
  const whole = new Blob([...mine.parts, ...mine.piece])
  const hex = await hashOf(whole)
  if (content !== mine) return
  saved = URL.createObjectURL(whole)
  const lost = document.activeElement === go
  go.hidden = true
  again.hidden = false
  if (lost) again.focus()
  state.textContent = 'The download is complete. The server computes its checksum …'
  const here = h('p', {}, 'SHA-256 here: ', hex === undefined ? 'the browser computes it on secure pages only' : h('code', { class: 'hash' }, hex))
  const save = h('p', {}, h('a', { href: saved, download: 'large-file.bin' }, 'Save the file'))
  fill(verdict, here, save)
  try {
    const { sha256 } = await client.run('/api/long-running-task', { task: 'checksum', data: {} })
    if (content !== mine) return
    const same = sha256 === hex
    const outcome = h('p', { class: same ? 'good' : 'bad' }, h('strong', {}, same ? '✓ The same bytes' : '✗ Other bytes than the server has'))
    state.textContent = ''
    fill(verdict, here, h('p', {}, 'SHA-256 there: ', h('code', { class: 'hash' }, sha256)), hex !== undefined && outcome, save)
  } catch (error) {
    if (content !== mine) return
    state.textContent = 'The download is complete, but the server computed no checksum.'
    showError(byId('download-error'), error)
  }
}

/** The SHA-256 in hexadecimal digits. `undefined` on a page that is not secure: it has no WebCrypto. */
async function hashOf(blob) {
  if (!crypto.subtle) return undefined
  const digest = await crypto.subtle.digest('SHA-256', await blob.arrayBuffer())
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
