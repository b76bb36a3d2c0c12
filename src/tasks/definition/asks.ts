import { duration, readOptions, text, type OptionTable } from '../../runtime/options.js'
import { isSchema, toDocumentSchema, type Schema } from '../../schema/schema.js'
import type { Ask, AnyQuestion } from './run-context.js'

/** Schemas of answers by their names. */
export type Asks = Readonly<Record<string, Schema>>

/** Maximum number of questions of one task. */
export const MAX_QUESTIONS = 32
/** Maximum length of all questions and answers of one task, as JSON, in UTF-16 units. */
export const MAX_INPUTS_LENGTH = 65_536
const WEEK_MS = 604_800_000

/**
 * Keys of questions. A key is neither a number nor `__proto__`, so an object keeps the keys in
 * their order.
 */
const KEY = text({
  pattern: /^[A-Za-z][A-Za-z0-9._-]{0,63}$/, expects: '1 to 64 of A-Z a-z 0-9 . _ -, a letter first',
})

const QUESTION = {
  message: text({ pattern: /^[^]{1,2000}$/, expects: 'a string of 1 to 2000 characters', required: true }),
  timeoutMs: duration({ min: 1, default: WEEK_MS }),
  schema: text(),
} satisfies OptionTable<AnyQuestion>

/** Returns whether a value is an object of schemas by their names. */
export function isAsks(given: unknown): boolean {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false
  const entries = Object.entries(given)
  return entries.length > 0 && entries.every(([name, schema]) => KEY.accepts(name) && isSchema(schema))
}

/** A question that was checked. */
export interface CheckedQuestion {
  readonly kind: string
  readonly message: string
  readonly timeoutMs: number
  /** The schema of the answer. */
  readonly answers: Schema
  /** JSON Schema of the answer, if its library can return it. */
  readonly schema: Record<string, unknown> | undefined
}

/** @throws {TypeError} The key or an option is not valid, or there is no such schema. */
export function checkedQuestion(
  { name, asks = {} }: { readonly name: string, readonly asks?: Asks }, key: string, question: AnyQuestion,
): CheckedQuestion {
  if (!KEY.accepts(key)) throw new TypeError(`ask: the key must be ${KEY.expects}, not ${JSON.stringify(key)}`)
  const where = `ask(${JSON.stringify(key)})`
  const { message, timeoutMs, schema: kind = key } = readOptions(where, question, QUESTION)
  const answers = Object.hasOwn(asks, kind) ? asks[kind] : undefined
  if (answers === undefined) {
    const known = Object.keys(asks).join(', ')
    throw new TypeError(`${where}: there is no schema ${kind} among the asks of ${name}, which has ${known}; `
      + 'add it there, or name one by the option schema')
  }
  return { kind, message, timeoutMs, answers, schema: toDocumentSchema(answers) }
}

/** The function `ask` of a definition without the option `asks`. */
export const NO_ASK: Ask = async () => {
  throw new TypeError('ask: pass defineTask the option asks, which has the schemas of the answers')
}
