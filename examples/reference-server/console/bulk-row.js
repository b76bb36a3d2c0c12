import { fill, h } from './dom.js'
import { detailList } from './errors.js'

const FIELDS = ['name', 'email', 'role']
let made = 0

/** One user to create, with a mark for the outcome. */
export class BulkRow {
  created = false
  #inputs = {}
  #faults = {}
  #mark = h('div', { class: 'mark' })
  #remove

  constructor(user, onRemove) {
    const key = `bulk-${++made}`
    const fields = FIELDS.map((name) => {
      const id = `${key}-${name}`
      const fault = h('span', { class: 'fault', id: `${id}-fault` })
      const input = name === 'role'
        ? h('select', { id }, h('option', { value: '' }, 'default'), ['viewer', 'editor', 'admin'].map((role) => h('option', {}, role)))
        : h('input', { id, type: 'text', inputmode: name === 'email' ? 'email' : 'text', autocomplete: 'off', spellcheck: 'false' })
      input.value = user[name] ?? ''
      this.#inputs[name] = input
      this.#faults[name] = fault
      return h('div', { class: `field ${name}` }, h('label', { for: id }, name), input, fault)
    })
    this.#remove = h('button', { type: 'button', onclick: onRemove }, 'Remove')
    this.element = h('li', {}, h('div', { class: 'item', role: 'group' }, fields, this.#remove, this.#mark))
  }

  /** The user to send, without empty fields. */
  get value() {
    return Object.fromEntries(FIELDS.map((name) => [name, this.#inputs[name].value]).filter(([, value]) => value !== ''))
  }

  /** Sets its place in the list, from 1. */
  number(place) {
    this.element.firstChild.setAttribute('aria-label', `User ${place}`)
    this.#remove.setAttribute('aria-label', `Remove user ${place}`)
  }

  /** Moves the focus to the first field with a mistake, else to the first field. */
  focus() {
    const wrong = FIELDS.map((name) => this.#inputs[name]).find((input) => input.getAttribute('aria-invalid') === 'true')
    const first = wrong ?? (this.created ? this.#remove : this.#inputs.name)
    first.focus()
  }

  /** Shows the item of the server's report; `undefined` if there is none yet. */
  mark(item) {
    const { status, id, error } = item ?? {}
    const { message, code } = error ?? {}
    // The pointers begin with the index of the item.
    const details = (error?.details ?? []).map((detail) => ({ ...detail, pointer: detail.pointer.replace(/^\/\d+/, '') }))
    this.created = item !== undefined && error === undefined
    const other = details.filter(({ pointer }) => !FIELDS.includes(pointer.slice(1)))
    for (const name of FIELDS) this.#markField(name, details.filter(({ pointer }) => pointer === `/${name}`))
    this.element.className = item === undefined ? '' : this.created ? 'created' : 'refused'
    if (item === undefined) fill(this.#mark)
    else if (this.created) fill(this.#mark, h('strong', { class: 'good' }, `✓ ${status}`), ` created with the id ${id}`)
    else fill(this.#mark, h('strong', { class: 'bad' }, `✗ ${status}`), ' ', h('code', {}, code), ` ${message}`, detailList(other))
  }

  #markField(name, faults) {
    const input = this.#inputs[name]
    const fault = this.#faults[name]
    if (name === 'role') input.disabled = this.created
    else input.readOnly = this.created
    if (faults.length === 0) {
      input.removeAttribute('aria-invalid')
      input.removeAttribute('aria-describedby')
      fill(fault)
      return
    }
    input.setAttribute('aria-invalid', 'true')
    input.setAttribute('aria-describedby', fault.id)
    // The first message is the simplest.
    fill(fault, h('code', {}, `/${name}`), ` ${faults[0].message}`)
  }
}
