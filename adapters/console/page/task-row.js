import { Questions } from './answer-form.js'
import { config } from './config.js'
import { confirmed } from './confirm.js'
import { announce, fill, h, isBusy, setBusy } from './dom.js'
import { errorBox } from './errors.js'
import { handleOf } from './task-calls.js'
import { FileList } from './task-files.js'
import {
  attemptList, callbackWords, isFinal, outcomeOf, percentOf, statusWords, timesOf,
} from './task-parts.js'
import { callbackOf, changesOf } from './task-watch.js'
import { showWords } from './task-words.js'

const NEWS = {
  completed: 'is completed', failed: 'has failed', cancelled: 'was cancelled',
}

/** One task of the list: its progress, its questions, its outcome, its files, and the buttons for what it allows. */
export class TaskRow {
  element
  taskId
  /** The status of the task, as the server sent it last. */
  task
  #handle
  #name
  /** Name and short id. */
  #what
  #questions
  #onForgotten
  #removed = new AbortController()
  #watching
  /** The shown status and the shown outcome, as JSON. */
  #shown = ''
  #shownOutcome = ''
  #files
  #badge = h('span', { class: 'badge' })
  #heading
  #bar
  #figures = h('span', { class: 'figures' })
  #meter
  #times = h('p', { class: 'dim times' })
  #callback = h('p', { class: 'callback' })
  #words = h('p', { class: 'words', hidden: true })
  #callbackLine
  #outcome = h('div', { class: 'outcome' })
  #fault = h('div')
  #buttons

  /** @param onForgotten - called once the server has deleted the task */
  constructor(task, { onForgotten }) {
    const { taskId, task: name } = task
    const short = taskId.slice(0, 6)
    const what = `${name} ${short}`
    const button = (words, run) => h('button', {
      'type': 'button', 'aria-label': `${words} ${what}`, 'hidden': true,
      'onclick': ({ currentTarget }) => { void this.#run(currentTarget, run) },
    }, words)
    this.taskId = taskId
    this.#name = name
    this.#what = what
    this.#questions = new Questions(what, async (answers) => {
      await this.#handle.answer(answers, this.#untilRemoved)
      // The watch shows the change. The response may be older than what it has shown.
      if (this.#watching === undefined) this.#watchAnew()
    })
    this.#onForgotten = onForgotten
    this.#handle = handleOf(taskId)
    this.#buttons = {
      cancel: button('Cancel', () => this.#cancel()),
      retry: button('Retry', () => this.#retry()),
      forget: button('Forget', () => this.#forget()),
      callback: button('Send the callback again', () => this.#redeliver()),
      watch: button('Watch again', () => { this.#watchAnew() }),
    }
    const { cancel, retry, forget, callback, watch } = this.#buttons
    this.#heading = h('h3', { tabindex: -1 }, name, ' ', h('code', { class: 'dim' }, short))
    this.#bar = h('progress', { 'max': 100, 'value': 0, 'aria-label': `Progress of ${what}` })
    this.#meter = h('div', { class: 'meter' }, this.#bar, this.#figures)
    this.#callbackLine = h('div', { class: 'line', hidden: true }, this.#callback, callback)
    this.element = h('li', { 'class': 'task', 'data-id': taskId },
      h('div', { class: 'line' },
        this.#heading, this.#badge, h('div', { class: 'buttons' }, cancel, retry, forget, watch)),
      this.#meter, this.#times, this.#questions.element, this.#words, this.#callbackLine, this.#outcome, this.#fault)
    this.show(task)
  }

  /** Shows the status of the task as the server has sent it. */
  show(task) {
    const text = JSON.stringify([task, statusWords(task)])
    if (text === this.#shown) return
    this.#shown = text
    const words = statusWords(task)
    const hasEnded = isFinal(task)
    this.#badge.className = `badge ${task.status === 'input_required' ? 'asking' : words}`
    this.#badge.textContent = words
    const share = percentOf(task)
    this.#bar.value = share
    this.#meter.hidden = hasEnded
    this.#figures.textContent = `${Math.floor(share)} % ${task.progress?.message ?? ''}`
    fill(this.#times, timesOf(task))
    this.#showQuestions(task)
    this.#showCallback(task)
    this.#showOutcome(task)
    this.#offer({
      cancel: !hasEnded,
      retry: task.status === 'failed' || task.status === 'cancelled',
      forget: hasEnded,
      callback: hasEnded && ['delivered', 'failed'].includes(task.callback?.state),
      watch: false,
    })
    this.task = task
  }

  /** Follows the task until it is final, and then its callback. */
  async watch() {
    if (this.#watching) return
    const watching = new AbortController()
    this.#watching = watching
    const { signal } = watching
    try {
      if (!isFinal(this.task)) await this.#followTask(signal)
      for await (const { body } of callbackOf(this.#handle, this.task.callback, signal)) {
        this.show(body)
        if (body.callback?.state === 'delivered') {
          announce(`The callback of ${this.#name} was delivered.`)
        }
      }
    } catch (error) {
      if (!signal.aborted) this.#lose(error)
    } finally {
      // Ends the reading of partial results, too.
      watching.abort(new Error('The task is no longer watched.'))
      if (this.#watching === watching) this.#watching = undefined
    }
  }

  /** Shows the status that a refresh of the list has read, without the error of an earlier request. */
  refresh(task) {
    fill(this.#fault)
    this.#offer({ watch: false })
    this.show(task)
  }

  /** Moves the focus to the heading of the row. */
  focus() {
    this.#heading.focus()
  }

  /** Removes the row from the page. The task itself continues. */
  remove() {
    this.#removed.abort(new Error('The row was removed.'))
    this.#watching?.abort(this.#removed.signal.reason)
    this.#files?.close()
    this.element.remove()
  }

  #watchAnew() {
    this.#watching?.abort(new Error('The task is watched anew.'))
    this.#watching = undefined
    fill(this.#fault)
    this.#offer({ watch: false })
    void this.watch()
  }

  async #followTask(signal) {
    // Without its words, the task is still watched.
    if (config.partialResults.includes(this.#name)) void showWords(this.#handle, this.#words, signal).catch(() => undefined)
    for await (const { body } of changesOf(this.#handle, signal)) this.show(body)
    announce(`The task ${this.#name} ${NEWS[this.task.status]}.`)
  }

  /** Shows the open questions. If the form that has the focus disappears, moves the focus to the heading. */
  #showQuestions({ inputs }) {
    const had = this.#questions.element.contains(document.activeElement)
    const before = this.task?.status
    this.#questions.show(inputs)
    if (had && !this.#questions.element.contains(document.activeElement)) this.focus()
    if (inputs !== undefined && before === 'processing') announce(`The task ${this.#name} needs an answer.`)
  }

  #showCallback({ callback }) {
    this.#callbackLine.hidden = callback === undefined
    if (callback !== undefined) fill(this.#callback, callbackWords(callback))
  }

  /** Replaces the outcome only if it differs, so that opened parts stay open. */
  #showOutcome({ error, result, attempts, files = [] }) {
    const text = JSON.stringify([error, result, attempts, files])
    if (text === this.#shownOutcome) return
    this.#shownOutcome = text
    this.#files?.close()
    this.#files = files.length > 0 ? new FileList(this.#handle, files) : undefined
    fill(this.#outcome, outcomeOf({ error, result }), this.#files?.element, attemptList(attempts))
  }

  /** Shows the buttons that fit. If the focused one disappears, moves the focus to the heading. */
  #offer(offered) {
    const focused = document.activeElement
    for (const [name, isOffered] of Object.entries(offered)) {
      const button = this.#buttons[name]
      button.hidden = !isOffered
      if (button === focused && !isOffered) this.focus()
    }
  }

  /** Runs what a button does. Shows its error in the row. */
  async #run(button, run) {
    if (isBusy(button)) return
    setBusy(button, true)
    fill(this.#fault)
    try {
      await run()
    } catch (error) {
      if (this.#removed.signal.aborted) return
      fill(this.#fault, errorBox(error))
      announce(`${this.#name}: ${error.message}`)
      // Another client has deleted the task.
      if (error.status === 404) this.#lose(error)
    } finally {
      setBusy(button, false)
    }
  }

  async #cancel() {
    this.show((await this.#handle.cancel(this.#untilRemoved)).body)
  }

  async #retry() {
    this.show((await this.#handle.retry(this.#untilRemoved)).body)
    announce(`The task ${this.#name} is ${statusWords(this.task)}.`)
    this.#watchAnew()
  }

  async #forget() {
    const { status, files = [] } = this.task
    const also = status === 'completed' ? ', its result and its files' : files.length > 0 ? ' and its files' : ''
    if (!await confirmed(`Forget your task ${this.#what}? The server deletes it${also}.`, 'Forget')) return
    await this.#handle.forget(this.#untilRemoved)
    this.#onForgotten(this)
    announce(`The task ${this.#name} was forgotten.`)
  }

  async #redeliver() {
    this.show((await this.#handle.redeliver(this.#untilRemoved)).body)
    announce(`The callback of ${this.#name} is sent again.`)
    this.#watchAnew()
  }

  /** Options of a request that ends when the row is removed. */
  get #untilRemoved() {
    return { signal: this.#removed.signal }
  }

  /** Shows why the task cannot be watched. A task that the server has deleted has no buttons. */
  #lose(error) {
    fill(this.#fault, errorBox(error))
    const isGone = error.status === 404
    const nothing = { cancel: false, retry: false, forget: false, callback: false }
    this.#offer({ ...isGone && nothing, watch: !isGone })
  }
}
