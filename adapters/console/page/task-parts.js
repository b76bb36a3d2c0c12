import { h } from './dom.js'
import { errorBox } from './errors.js'

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const DATE_AND_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' })
const SECONDS = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

/** Returns true for a task that has ended. */
export function isFinal({ status }) {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** Returns the words for the status of a task. */
export function statusWords({ status, startAt, startedAt, attempt }) {
  if (status === 'input_required') return 'needs an answer'
  if (status !== 'processing') return status
  if (startAt !== undefined && Date.parse(startAt) > Date.now()) return 'scheduled'
  return startedAt === undefined && attempt === undefined ? 'waiting' : 'running'
}

/** Returns how much of a task is done, from 0 to 100. */
export function percentOf({ status, progress }) {
  if (status === 'completed') return 100
  const { done = 0, total = 0 } = progress ?? {}
  return total > 0 ? Math.min(100, (done / total) * 100) : 0
}

/** Returns the times of a task, as the words of one line. */
export function timesOf({ createdAt, startAt, finishedAt }) {
  if (createdAt === undefined) return []
  const isLater = startAt !== undefined && Date.parse(startAt) > Date.now()
  return [
    'Created ', time(createdAt),
    isLater && [', starts ', time(startAt)],
    finishedAt && [', ended ', time(finishedAt)],
  ]
}

/** Returns the state of a callback, as the children of a line. */
export function callbackWords({ state, attempts, lastStatus, fault, nextAttemptAt, deliveredAt }) {
  const parts = [
    attempts > 0 && `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
    lastStatus !== undefined && `the last answer was ${lastStatus}`,
    // The status of the response says it already.
    fault !== 'status' && fault,
    state === 'pending' && nextAttemptAt !== undefined && `next at ${clock(nextAttemptAt)}`,
    deliveredAt !== undefined && `at ${clock(deliveredAt)}`,
  ]
  const kind = state === 'delivered' ? 'good' : state === 'failed' ? 'bad' : 'dim'
  const words = parts.filter(Boolean).map((part) => `, ${part}`)
  return ['Callback: ', h('strong', { class: kind }, state), ...words]
}

/** Returns the error or the result of a final task. */
export function outcomeOf({ error, result }) {
  return [
    error && errorBox(error),
    result?.message !== undefined && h('p', {}, result.message),
    result !== undefined && h('details', {},
      h('summary', {}, 'The whole result'),
      h('pre', { tabindex: 0 }, JSON.stringify(result, null, 2))),
  ]
}

/** Returns the history of attempts. The server keeps the last ten. */
export function attemptList(attempts) {
  if (attempts === undefined || attempts.length === 0) return undefined
  const count = `${attempts.length} ${attempts.length === 1 ? 'attempt' : 'attempts'}`
  return h('details', { class: 'attempts' },
    h('summary', {}, `History: ${count}`),
    h('ol', {}, attempts.map((each) => h('li', { value: each.attempt }, attemptWords(each)))))
}

function attemptWords({ startedAt, endedAt, error }) {
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000
  const how = error
    ? [' ', h('code', { class: 'bad' }, error.code), ` ${error.message}`]
    : ' no error'
  return [time(startedAt, CLOCK), `, ${SECONDS.format(seconds)} s:`, how]
}

/** Times of today need no date. */
function formatFor(text) {
  const isToday = new Date(text).toDateString() === new Date().toDateString()
  return isToday ? CLOCK : DATE_AND_TIME
}

/** Returns a time as an element, in the zone and language of the browser. */
export function time(text, format = formatFor(text)) {
  return h('time', { datetime: text }, format.format(new Date(text)))
}

function clock(text) {
  return CLOCK.format(new Date(text))
}
