// Sends a file in parts that resume: after a pause, after a broken connection, and after a reload of the page.
import { ask, client } from './api.js'
import { announce, byId, mebibytes } from './dom.js'
import { showError } from './errors.js'
import { isTaskFailed } from './longhaul-client.js'
import { read, write } from './session.js'

const PATH = '/upload-ndjson'
/** Key of the unfinished upload, or of its task, in the storage of this tab. */
const KEY = 'longhaul.upload'
/** Statuses with which the server finally rejects an upload. */
const REFUSED = new Set([400, 409, 413, 415, 422])

const part = byId('sending')
const bar = byId('sending-bar')
const figures = byId('sending-figures')
const state = byId('sending-state')
const go = byId('sending-go')
const end = byId('sending-end')
/** The functions of the two buttons. */
let actions = {}

go.addEventListener('click', () => { actions.go?.() })
end.addEventListener('click', () => { actions.end?.() })

/**
 * Sends a file. Resolves to the report of the server, or to `undefined` if the user cancels it.
 * Rejects if the server refuses the file.
 */
export async function sendFile(file, background) {
  part.hidden = false
  try {
    const task = await upload(file, background)
    return task && await watch(task)
  } finally {
    close()
  }
}

/** Resumes what an earlier page of this tab has left. Resolves to the report, if a task is making it. */
export async function continueEarlier() {
  const { task, name, sent, total } = saved()
  if (task !== undefined) {
    part.hidden = false
    try {
      return await watch(client.resume(task))
    } finally {
      close()
    }
  }
  if (name === undefined) return undefined
  part.hidden = false
  show(sent, total)
  state.textContent = `The upload of ${name} is not finished. Choose the same file to resume it.`
  setButtons({ end: ['Forget it', () => { void forget() }] })
  return undefined
}

/** Sends all bytes, in as many attempts as the user wants. Resolves to the task, or `undefined` if cancelled. */
async function upload(file, background) {
  for (;;) {
    const sending = start(file, background)
    try {
      return await sending.task()
    } catch (error) {
      if (error.code === 'upload_cancelled') return undefined
      if (REFUSED.has(error.status)) throw error
      // An upload that has expired, or that belongs to another token, starts again.
      if (error.status === 404 && saved().url) {
        write(KEY, '')
        continue
      }
      if (await wantsRetry(error, `Interrupted at ${mebibytes(sending.sent)}. The server keeps what it has.`)) continue
      await sending.cancel().catch(() => undefined)
      return undefined
    }
  }
}

/** Waits for the report: the answer itself, or the result of the task of a 202. */
async function watch(task) {
  write(KEY, task.statusUrl === undefined ? '' : JSON.stringify({ task }))
  let isCancelled = false
  for (;;) {
    state.textContent = 'The server has all bytes, and reads them …'
    setButtons({ end: ['Cancel the task', () => {
      isCancelled = true
      void task.cancel().catch(() => undefined)
    }] })
    try {
      return await task.result({ onProgress: showReading })
    } catch (error) {
      if (isTaskFailed(error) && isCancelled) return undefined
      if (isTaskFailed(error) || error.status === 404) throw error
      if (!await wantsRetry(error, 'The server keeps the file and reads it.')) return undefined
    }
  }
}

/** Waits after a failure. Resolves to `true` when the work shall continue, to `false` when the user cancels it. */
async function wantsRetry(error, words) {
  showError(byId('upload-error'), error)
  state.textContent = words
  const again = await new Promise((resolve) => {
    addEventListener('online', () => { resolve(true) }, { once: true })
    setButtons({
      go: ['Try again', () => { resolve(true) }],
      end: ['Cancel the upload', () => { resolve(false) }],
    })
  })
  showError(byId('upload-error'))
  return again
}

function start(file, background) {
  const { name, size, lastModified } = file
  const key = { name, size, lastModified }
  const earlier = saved()
  const isSame = Object.entries(key).every(([member, value]) => earlier[member] === value)
  const from = isSame && earlier.url ? { from: { url: earlier.url, total: size } } : {}
  const sending = client.uploadFile(PATH, file, {
    ...from, background, type: 'application/x-ndjson', chunkBytes: partBytes(size),
    onProgress: ({ sent }) => {
      show(sent, size)
      write(KEY, JSON.stringify({ ...key, sent, total: size, url: sending.url }))
    },
  })
  state.textContent = isSame ? `Resuming ${name} …` : `Sending ${name} …`
  pausable(sending)
  return sending
}

/** Returns the size of one request, so that the bar moves some fifty times. */
function partBytes(size) {
  return Math.min(8_388_608, Math.max(262_144, Math.ceil(size / 50)))
}

function pausable(sending) {
  setButtons({
    go: ['Pause', () => {
      if (sending.paused) sending.resume()
      else sending.pause()
      go.textContent = sending.paused ? 'Resume' : 'Pause'
      state.textContent = sending.paused ? `Paused at ${mebibytes(sending.sent)}.` : 'Sending …'
    }],
    end: ['Cancel the upload', () => { void sending.cancel().catch(() => undefined) }],
  })
}

/** Deletes the bytes of an upload of an earlier page. */
async function forget() {
  const { url } = saved()
  close()
  if (url) await ask('DELETE', new URL(url).pathname).catch(() => undefined)
}

function saved() {
  return JSON.parse(read(KEY) || '{}')
}

function show(sent, total) {
  bar.value = total > 0 ? (sent / total) * 100 : 100
  figures.textContent = `${Math.floor(bar.value)} %, ${mebibytes(sent)} of ${mebibytes(total)}`
}

function showReading({ progress: { done = 0, total = 0 } = {} }) {
  if (total > 0) bar.value = (done / total) * 100
  figures.textContent = total > 0 ? `${Math.floor(bar.value)} % read` : `${done} read`
}

/** Gives the two buttons their labels and functions. A button without them is hidden, and loses the focus to the other. */
function setButtons({ go: first, end: second }) {
  if (first === undefined && document.activeElement === go) end.focus()
  actions = { go: first?.[1], end: second?.[1] }
  for (const [button, label] of [[go, first?.[0]], [end, second?.[0]]]) {
    button.hidden = label === undefined
    if (label !== undefined) button.textContent = label
  }
}

function close() {
  const hadFocus = part.contains(document.activeElement)
  write(KEY, '')
  actions = {}
  part.hidden = true
  if (hadFocus) byId('upload-file').focus()
  announce('The upload has ended.')
}
