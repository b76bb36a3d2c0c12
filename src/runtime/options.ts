import { checkNames } from './option-names.js'

/**
 * One option of a function. `readOptions` checks all options by one table, and returns them with their
 * defaults: `{ retentionMs: duration({ min: 1000, default: DAY }), onError: func() } satisfies OptionTable<Options>`
 */
export interface Option<T = unknown> {
  /** Ends the sentence "remove must be …". */
  readonly expects: string
  readonly accepts: (value: unknown) => boolean
  readonly default?: T
  readonly required?: boolean
  /**
   * Sentence for somebody who has passed another value: what to write instead, without its full
   * stop.
   */
  readonly hint?: string
}

export type OptionTable<O> = { readonly [N in keyof O]-?: Option<NonNullable<O[N]>> }

/** Options after the check: an option with a default has a value. */
export type Filled<O, T> = O & {
  readonly [N in keyof T & keyof O as T[N] extends { readonly default: unknown } ? N : never]-?: NonNullable<O[N]>
}

export interface Extra<T> {
  readonly default?: T
  readonly required?: boolean
  readonly hint?: string
}

export interface Range<T = number> extends Extra<T> {
  readonly min?: number
  readonly max?: number
  /** `true`: `Infinity` is allowed, and means that there is no limit. */
  readonly infinity?: boolean
}

/** 100 years in milliseconds: a later time is not a valid date. */
export const LONGEST_MS = 3_155_760_000_000
/** The longest time of a Node timer, in milliseconds. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** A whole number. Default range: from 0. */
export const whole = <R extends Range>(range: R = {} as R) => number('whole number', Number.isInteger, range)

/** A number of bytes. Default range: from 0, `Infinity` included. */
export const bytes = <R extends Range>(range: R = {} as R) => (
  number('number of bytes', (value) => typeof value === 'number', { infinity: true, ...range })
)

/** A number of milliseconds. Default range: from 0 to 100 years. */
export const duration = <R extends Range>(range: R = {} as R) => (
  number('number of milliseconds', (value) => typeof value === 'number', { max: LONGEST_MS, ...range })
)

/** A number of milliseconds that a timer of Node can wait. Default range: from 1. */
export const timer = <R extends Range>(range: R = {} as R) => duration({ min: 1, max: MAX_TIMER_MS, ...range })

function number<R extends Range>(
  kind: string, isKind: (value: unknown) => boolean, range: R,
): Option<number> & R {
  const { min = 0, max = Infinity, infinity = false } = range
  const to = (max < Infinity ? ` to ${max}` : '') + (infinity ? ', or Infinity' : '')
  const accepts = (value: unknown) => (
    value === Infinity ? infinity : isKind(value) && (value as number) >= min && (value as number) <= max
  )
  return { ...range, expects: `a ${kind} from ${min}${to}`, accepts }
}

/** One of some strings. */
export function oneOf<const T extends string, E extends Extra<T>>(
  values: readonly T[], extra: E = {} as E,
): Option<T> & E {
  return {
    ...extra, expects: values.map((value) => `'${value}'`).join(' or '),
    accepts: (value) => (values as readonly unknown[]).includes(value),
  }
}

/** Returns a check that recognises an object by one of its methods. */
export const hasMethod = (name: string) => (given: unknown): boolean => (
  typeof (given as Readonly<Record<string, unknown>> | null | undefined)?.[name] === 'function'
)

/** `true` or `false`. */
export const flag = <E extends Extra<boolean>>(extra: E = {} as E): Option<boolean> & E => (
  { ...extra, expects: 'true or false', accepts: (value) => typeof value === 'boolean' }
)

type Untyped<E, T = unknown> = Pick<Option<T>, 'expects' | 'accepts'> & NoInfer<E>

export const func = <E extends Extra<never> = Record<never, never>>(extra: E = {} as E): Untyped<E> => (
  { ...extra, expects: 'a function', accepts: (value) => typeof value === 'function' }
)

/** A string. Default: not empty. */
export function text<E extends Extra<string> & { readonly pattern?: RegExp, readonly expects?: string }>(
  extra: E = {} as E,
): Option<string> & E {
  const { pattern = /./s, expects = 'a string that is not empty' } = extra
  return { ...extra, expects, accepts: (value) => typeof value === 'string' && pattern.test(value) }
}

/** A value for which `accepts` returns true. Default: anything. */
export const value = <T = never, E extends Extra<unknown> = Record<never, never>>(
  expects = 'anything', accepts: (value: unknown) => boolean = () => true, extra: E = {} as E,
): Untyped<E, T> => ({ ...extra, expects, accepts })

/**
 * @param where - start of the message: the function, and the option if the options are nested
 * @throws {TypeError} A name is unknown, a value is not valid, or a required option is missing.
 */
export function readOptions<O extends object, T extends OptionTable<O>>(
  where: string, options: O, table: T,
): Filled<O, T> {
  checkNames(where, options, table)
  const given = options as Readonly<Record<string, unknown>>
  const filled: Record<string, unknown> = {}
  const rows = table as Readonly<Record<string, Option>>
  for (const name in rows) {
    const option = rows[name] as Option
    const each = given[name]
    if (each !== undefined || name in given) filled[name] = each
    if (each === undefined) {
      if (option.required) throw new TypeError(`${where}: the option ${name} is missing; it must be ${option.expects}`)
      if (option.default !== undefined) filled[name] = option.default
    } else if (!option.accepts(each)) {
      const hint = option.hint === undefined ? '' : `. ${option.hint}`
      throw new TypeError(`${where}: ${name} must be ${option.expects}, not ${shown(each)}${hint}`)
    }
  }
  return filled as Filled<O, T>
}

function shown(given: unknown): string {
  if (typeof given === 'string') return JSON.stringify(given.length > 40 ? `${given.slice(0, 40)}…` : given)
  if (typeof given === 'function') return 'a function'
  if (Array.isArray(given)) {
    return `[${given.slice(0, 3).map(shown).join(', ')}${given.length > 3 ? ', …' : ''}]`
  }
  return typeof given === 'object' && given !== null ? 'an object' : String(given)
}
