import { fieldsFor } from './answer-fields.js'
import { announce, fill, h, isBusy, setBusy } from './dom.js'
import { errorBox } from './errors.js'
import { time } from './task-parts.js'

/** The open questions of a task, each with a form for its answer. */
export class Questions {
  element = h('div', { class: 'questions' })
  #shown = ''
  #what
  #send

  /**
   * @param what - the task, for screen readers
   * @param send - sends `{ [key]: answer }`, and shows the status of the task afterwards
   */
  constructor(what, send) {
    this.#what = what
    this.#send = send
  }

  /** Shows the questions. If they are those that are shown, what the user has entered stays. */
  show(inputs = {}) {
    const keys = Object.keys(inputs)
    if (keys.join('\n') === this.#shown) return
    this.#shown = keys.join('\n')
    fill(this.element, keys.map((key) => this.#formFor(key, inputs[key])))
  }

  #formFor(key, { message, schema, expiresAt }) {
    const { elements, read } = fieldsFor(schema)
    const fault = h('div', { role: 'alert' })
    const button = h('button', { type: 'submit', class: 'main' }, 'Send the answer')
    const send = async (event) => {
      event.preventDefault()
      if (isBusy(button)) return
      setBusy(button, true)
      fill(fault)
      try {
        await this.#send({ [key]: read() })
        announce(`The answer to ${key} was sent.`)
      } catch (error) {
        fill(fault, errorBox(error))
      } finally {
        setBusy(button, false)
      }
    }
    return h('form', { 'class': 'question', 'aria-label': `Question ${key} of ${this.#what}`, 'onsubmit': (event) => { void send(event) } },
      h('p', {}, h('strong', {}, message)),
      h('div', { class: 'fields' }, elements),
      h('div', { class: 'actions' }, button, expiresAt && h('span', { class: 'dim' }, 'The task waits until ', time(expiresAt), '.')),
      fault)
  }
}
