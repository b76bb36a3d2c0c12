import { announce, fill, h, isBusy, setBusy } from './dom.js'
import { errorBox } from './errors.js'
import { freed, pause, take } from './watching.js'

const LOOK_MS = 1500
const CALLBACK_MS = 2000
const CALLBACK_MAX_MS = 30_000
const WORDS = { processing: 'runs', completed: 'completed', failed: 'failed', cancelled: 'cancelled' }

/** One task in the list: what it is, how far it is, what came of it, and who was told. */
export class TaskRow {
  ended = false
  /** Whether the server knows nothing of it any more. */
  lost = false
  #gone = new AbortController()
  #state = h('span', { class: 'badge' }, 'accepted')
  #bar
  #figures = h('span', { class: 'figures' })
  #heading
  #cancel
  #callback = h('p', { class: 'callback', hidden: true })
  #outcome = h('div')
  #onLost

  constructor(handle, task, { onLost }) {
    this.handle = handle
    this.task = task
    this.#onLost = onLost
    const short = (handle.taskId ?? '').slice(0, 6)
    this.#heading = h('h3', { tabindex: -1 }, task, ' ', h('code', { class: 'dim' }, short))
    this.#bar = h('progress', { max: 100, value: 0, 'aria-label': `Progress of ${task} ${short}` })
    this.#cancel = h('button', { type: 'button', 'aria-label': `Cancel ${task} ${short}`, onclick: () => { void this.#stop() } }, 'Cancel')
    this.element = h('li', { class: 'task', 'data-id': handle.taskId },
      h('div', { class: 'line' }, this.#heading, this.#state, this.#cancel),
      h('div', { class: 'meter' }, this.#bar, this.#figures),
      this.#callback, this.#outcome)
  }

  /** Follows the task to its end, and its callback to its own. */
  async watch() {
    const { signal } = this.#gone
    try {
      await this.#follow(signal)
      if (!signal.aborted) await this.#followCallback(signal)
    } catch (error) {
      if (!signal.aborted) this.#lose(error)
    }
  }

  /** Takes it off the page; the task itself goes on. */
  remove() {
    this.#gone.abort(new Error('The row is gone.'))
    this.element.remove()
  }

  /** By events while there is a connection to spare, else by looking now and then. */
  async #follow(signal) {
    while (!this.ended) {
      const release = take()
      if (release) {
        try {
          for await (const task of this.handle.changes({ signal })) this.#show(task)
        } finally {
          release()
        }
        return
      }
      this.#show(await this.handle.status({ signal }))
      if (!this.ended) await Promise.race([pause(LOOK_MS, signal), freed()])
    }
  }

  async #followCallback(signal) {
    let callback = this.last?.callback
    while (callback && (callback.state === 'waiting' || callback.state === 'pending')) {
      const next = Date.parse(callback.nextAttemptAt ?? '') - Date.now() + 500
      await pause(Math.min(CALLBACK_MAX_MS, Math.max(CALLBACK_MS, next || 0)), signal)
      callback = (await this.handle.status({ signal })).callback
      this.#showCallback(callback)
      if (callback?.state === 'delivered') announce(`The callback of ${this.task} was delivered.`)
    }
  }

  #show(task) {
    this.last = task
    const { status, progress, error, result } = task
    this.#state.className = `badge ${status}`
    this.#state.textContent = WORDS[status]
    const { done = 0, total = 0, message } = progress ?? {}
    const share = status === 'completed' ? 100 : total > 0 ? Math.min(100, (done / total) * 100) : 0
    this.#bar.value = share
    this.#figures.textContent = `${Math.floor(share)} %${message ? ` ${message}` : ''}`
    this.#showCallback(task.callback)
    if (status === 'processing') return
    this.#end(status)
    fill(this.#outcome,
      error ? errorBox(error) : undefined,
      result ? [h('p', {}, result.message), h('details', {}, h('summary', {}, 'The whole result'), h('pre', { tabindex: 0 }, JSON.stringify(result, null, 2)))] : undefined)
  }

  #end(status) {
    if (this.ended) return
    this.ended = true
    // The focus must not get lost with the button.
    const focused = document.activeElement === this.#cancel
    this.#cancel.remove()
    if (focused) this.#heading.focus()
    announce(`The task ${this.task} ${status === 'cancelled' ? 'was cancelled' : status === 'failed' ? 'has failed' : 'is completed'}.`)
  }

  #showCallback(callback) {
    this.#callback.hidden = callback === undefined
    if (callback === undefined) return
    const { state, attempts, lastStatus, fault, nextAttemptAt, deliveredAt } = callback
    const parts = [
      attempts > 0 && `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
      lastStatus !== undefined && `the last answer was ${lastStatus}`,
      fault,
      state === 'pending' && nextAttemptAt !== undefined && `next at ${clock(nextAttemptAt)}`,
      deliveredAt !== undefined && `at ${clock(deliveredAt)}`,
    ]
    const kind = state === 'delivered' ? 'good' : state === 'failed' ? 'bad' : 'dim'
    fill(this.#callback, 'Callback: ', h('strong', { class: kind }, state), parts.filter(Boolean).map((part) => `, ${part}`))
  }

  async #stop() {
    if (isBusy(this.#cancel)) return
    setBusy(this.#cancel, true)
    try {
      this.#show(await this.handle.cancel({ signal: this.#gone.signal }))
    } catch (error) {
      if (!this.#gone.signal.aborted) fill(this.#outcome, errorBox(error))
    } finally {
      setBusy(this.#cancel, false)
    }
  }

  #lose(error) {
    const again = h('button', { type: 'button', onclick: () => {
      this.#heading.focus()
      fill(this.#outcome)
      void this.watch()
    } }, 'Watch again')
    fill(this.#outcome, errorBox(error), again)
    // The server forgot it, or it is someone else's: there is nothing to come back to.
    if (error.status !== 404) return
    again.remove()
    this.ended = true
    this.lost = true
    this.#cancel.remove()
    this.#onLost()
  }
}

function clock(time) {
  return new Date(time).toLocaleTimeString()
}
