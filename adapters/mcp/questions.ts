import type { StoredTask } from '../../src/engine/task.js'
import { isJsonObject } from '../../src/http/body/json.js'
import { detailsOf, type Details } from '../../src/tasks/record/details.js'
import { openInputs, type InputDetails, type Inputs } from '../../src/tasks/record/inputs.js'
import { inner, type JsonObject } from './protocol.js'

/** Formats of strings that a form of MCP knows. */
const FORMATS: readonly unknown[] = ['email', 'uri', 'date', 'date-time']
const SIMPLE: readonly unknown[] = ['string', 'number', 'integer', 'boolean']
/** Property of the form for an answer that is no object. */
const ANSWER = 'answer'

/** Returns the questions that the task waits for. */
export function openQuestions(task: StoredTask): Inputs {
  const { inputs = {} }: Details = detailsOf(task)
  return task.status === 'input_required' ? openInputs(inputs) : {}
}

/** Returns the questions as requests of the server to the client: forms (elicitation). */
export function inputRequests(questions: Inputs): Record<string, JsonObject> {
  return Object.fromEntries(Object.entries(questions).map(([key, { message, schema }]) => [key, {
    method: 'elicitation/create',
    params: { mode: 'form', message, requestedSchema: formOf(schema).schema },
  }]))
}

/** Returns the answer to a question in the accepted response of a client. */
export function answerIn({ schema }: InputDetails, response: JsonObject): unknown {
  return formOf(schema).read(inner(response, 'content') ?? {})
}

interface Form {
  readonly schema: JsonObject
  readonly read: (content: JsonObject) => unknown
}

/**
 * Returns the form for an answer. MCP knows flat objects of simple values. A simple value is the only
 * property of a form. Anything else is a string with the JSON of the answer.
 */
function formOf(schema: JsonObject | undefined): Form {
  const fields = fieldsOf(schema)
  if (fields !== undefined) return { schema: { type: 'object', ...fields }, read: (content) => content }
  const field = fieldOf(schema)
  const description = schema === undefined ? 'JSON' : `JSON, as this schema says: ${JSON.stringify(schema)}`
  return {
    schema: {
      type: 'object', properties: { [ANSWER]: field ?? { type: 'string', description } }, required: [ANSWER],
    },
    read: ({ [ANSWER]: given }) => field === undefined ? parsed(given) : given,
  }
}

/** Returns the fields for an object; `undefined` if a form cannot show it. */
function fieldsOf(schema: JsonObject | undefined): JsonObject | undefined {
  const given = inner(schema, 'properties')
  if (schema?.['type'] !== 'object' || given === undefined) return undefined
  const shown = Object.entries(given).map(([name, property]) => [name, fieldOf(property)] as const)
  const required = Array.isArray(schema['required']) ? schema['required'] as unknown[] : []
  if (shown.some(([, field]) => field === undefined)) return undefined
  if (!required.every((name) => Object.hasOwn(given, String(name)))) return undefined
  return { properties: Object.fromEntries(shown), ...required.length > 0 && { required } }
}

/** Returns the schema of one field of a form; `undefined` if a form cannot show it. */
function fieldOf(property: unknown): JsonObject | undefined {
  if (!isJsonObject(property)) return undefined
  const { type, format, pattern: _, ...others } = property
  if (Array.isArray(property['enum']) && type === undefined) {
    return property['enum'].every((each) => typeof each === 'string') ? { type: 'string', ...others } : undefined
  }
  const isChoice = type === 'array' && inner(property, 'items')?.['enum'] !== undefined
  if (!isChoice && !SIMPLE.includes(type)) return undefined
  return { type, ...others, ...FORMATS.includes(format) && { format } }
}

function parsed(given: unknown): unknown {
  try {
    return typeof given === 'string' ? JSON.parse(given) as unknown : given
  } catch {
    return given
  }
}
