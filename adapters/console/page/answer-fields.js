// Form fields for an answer, made from the JSON Schema of the question.
import { h } from './dom.js'

let made = 0

/**
 * Returns the fields for a schema: `elements`, and `read`, which returns the answer or throws an error with a message
 * for people. An object has a field for each property. A schema with parts that no field can show is one field for JSON.
 */
export function fieldsFor(schema) {
  const properties = schema?.type === 'object' ? Object.entries(schema.properties ?? {}) : []
  if (properties.length > 0 && properties.every(([, each]) => kindOf(each) !== undefined)) {
    return objectFields(properties, schema.required ?? [])
  }
  const field = kindOf(schema) === undefined ? jsonField() : valueField('Answer', schema, true)
  return { elements: [field.element], read: field.read }
}

function objectFields(properties, required) {
  const fields = properties.map(([name, schema]) => [name, valueField(name, schema, required.includes(name))])
  return {
    elements: fields.map(([, { element }]) => element),
    read: () => Object.fromEntries(fields.map(([name, { read }]) => [name, read()]).filter(([, value]) => value !== undefined)),
  }
}

/** Returns the kind of field for a schema: `choice`, `number` or `text`. `undefined` if there is none. */
function kindOf(schema) {
  const { type } = schema ?? {}
  if (choicesOf(schema) !== undefined) return 'choice'
  if (type === 'number' || type === 'integer') return 'number'
  return type === 'string' ? 'text' : undefined
}

/** Returns the values of a choice with their labels. `undefined` if the schema is no choice. */
function choicesOf(schema) {
  if (schema?.type === 'boolean') return [['yes', true], ['no', false]]
  const values = schema !== undefined && 'const' in schema ? [schema.const] : schema?.enum
  return Array.isArray(values) ? values.map((value) => [typeof value === 'string' ? value : JSON.stringify(value), value]) : undefined
}

/** Returns a field, and `read`, which returns `undefined` for an empty one. */
function valueField(name, schema, isRequired) {
  const id = `answer-${++made}`
  const hint = schema.description && h('span', { class: 'dim', id: `${id}-hint` }, schema.description)
  const shared = { id, 'required': isRequired, 'aria-describedby': hint && hint.id }
  const { input, read } = inputFor(schema, shared)
  const label = [schema.title ?? name, !isRequired && h('span', { class: 'dim' }, ' (optional)')]
  return { element: h('div', { class: 'field' }, h('label', { for: id }, label), input, hint), read }
}

function inputFor(schema, shared) {
  const { default: preset, minimum, maximum, minLength, maxLength } = schema
  const kind = kindOf(schema)
  if (kind === 'choice') return choice(choicesOf(schema), preset, shared)
  if (kind === 'number') {
    const step = schema.multipleOf ?? (schema.type === 'integer' ? 1 : 'any')
    const input = h('input', { ...shared, type: 'number', min: minimum, max: maximum, step, value: preset })
    return { input, read: () => (input.value === '' ? undefined : input.valueAsNumber) }
  }
  const limits = { ...shared, minlength: minLength, maxlength: maxLength, autocomplete: 'off' }
  const isLong = maxLength === undefined || maxLength > 200
  const input = isLong && schema.format === undefined
    ? h('textarea', { ...limits, rows: 2 }, preset)
    : h('input', { ...limits, type: schema.format === 'email' ? 'email' : 'text', value: preset })
  return { input, read: () => (input.value === '' && !shared.required ? undefined : input.value) }
}

function choice(choices, preset, shared) {
  const none = h('option', { value: '' }, 'choose')
  const options = choices.map(([label, value], at) => h('option', { value: at, selected: value === preset }, label))
  const input = h('select', shared, none, options)
  return { input, read: () => (input.value === '' ? undefined : choices[Number(input.value)][1]) }
}

function jsonField() {
  const id = `answer-${++made}`
  const input = h('textarea', { id, class: 'code', rows: 4, required: true, spellcheck: 'false' })
  return {
    element: h('div', { class: 'field' }, h('label', { for: id }, 'Answer as JSON'), input),
    read() {
      try {
        return JSON.parse(input.value)
      } catch (error) {
        throw Object.assign(new Error(`This is not JSON: ${error.message}`), { code: 'invalid_json' })
      }
    },
  }
}
