import { reasonPhrase } from '../http/failure.js'
import { Definitions } from './definitions.js'
import { notModified, onlyCode, unexpectedError } from './errors.js'
import type { Fragment } from './fragment.js'

type Section = 'schemas' | 'responses' | 'headers' | 'parameters' | 'requestBodies'
type ByName<T = Fragment> = Readonly<Record<string, T>>

/** Parts whose JSON is shorter stay where they are used: a reference would not be shorter. */
const MIN_LENGTH = 60

/** A schema, response, header, parameter or request body. Equal objects are one part. */
interface Part {
  readonly section: Section
  readonly hint: string
  readonly value: Fragment
  /** Length of its JSON, with the parts inside. */
  readonly length: number
  /** `true`: a component even if it is used once, because its name says more. */
  readonly isNamed: boolean
  uses: number
  name: string | undefined
}

class Use {
  constructor(readonly part: Part, private readonly index: number) {}

  /**
   * Returns the index of the part in place of its JSON, so that parts around it can be compared as
   * short JSON.
   */
  toJSON(): number {
    return this.index
  }
}

export class Components {
  readonly #uses = new Map<string, Use>()
  readonly #components: Record<string, Record<string, unknown>> = {}
  readonly #reserved = new Set<string>()
  readonly #ids: Set<string>
  readonly #definitions = new Definitions((hint) => {
    const schemas = this.#components['schemas'] ??= {}
    const wanted = capitalized(hint)
    const name = uniqueName(wanted, (taken) => taken in schemas || this.#reserved.has(taken))
    schemas[name] = undefined
    return [`#/components/schemas/${name}`, (value) => { schemas[name] = retitled(name, wanted, value) }]
  })

  constructor(operationIds: Iterable<string>) {
    this.#ids = new Set(operationIds)
  }

  name(section: Section, name: string, value: Fragment): void {
    this.#reserved.add(name)
    this.#use(section, name, section === 'schemas' ? this.#inSchema(name, value) : value, true)
  }

  operation(
    title: string, { parameters, requestBody, responses, callbacks, ...rest }: Fragment,
  ): Fragment {
    const body = requestBody as Fragment | undefined
    return {
      ...rest,
      ...parameters !== undefined && {
        parameters: (parameters as readonly Fragment[]).map((each) => (
          this.#use('parameters', String(each['name']), this.#withSchema(String(each['name']), each))
        )),
      },
      ...body && {
        requestBody: this.#use('requestBodies', title, this.#withContent(`${title}Request`, body)),
      },
      responses: mapped(responses as ByName, (response, status) => {
        const name = nameOfResponse(title, status, response)
        const { headers } = response
        const parts = headers === undefined ? response : {
          ...response,
          // Sorted, so that responses that differ only in the order are equal.
          headers: mapped(sorted(headers as ByName), (each, header) => (
            this.#use('headers', header, this.#withSchema(header, each))
          )),
        }
        return this.#use('responses', name, this.#withContent(`${title}Response`, parts))
      }),
      ...callbacks !== undefined && {
        // Not a component: openapi-python-client 0.29 rejects a document with a reference here.
        callbacks: mapped(callbacks as ByName, (each, name) => (
          this.#callback(String(rest['operationId']), name, each)
        )),
      },
    }
  }

  /** Gives the operations of a callback their ids. */
  #callback(cause: string, name: string, callback: Fragment): Fragment {
    return mapped(callback as ByName, (pathItem) => (
      mapped(pathItem as ByName, (operation) => {
        const title = capitalized(name)
        const own = operation['operationId']
        const wanted = typeof own === 'string' ? own : `${cause}${title}`
        const operationId = uniqueName(wanted, (taken) => this.#ids.has(taken))
        this.#ids.add(operationId)
        return this.operation(title, { ...operation, operationId })
      })
    ))
  }

  finish(paths: Fragment, securitySchemes: Fragment): Fragment {
    this.#count(paths)
    const finished = this.#placed(paths)
    return {
      paths: finished,
      components: {
        ...mapped(this.#components, sorted),
        ...Object.keys(securitySchemes).length > 0 && { securitySchemes },
      },
    }
  }

  #withContent(name: string, part: Fragment): Fragment {
    const { content } = part
    if (content === undefined) return part
    return { ...part, content: mapped(content as ByName, (each) => this.#withSchema(name, each)) }
  }

  #withSchema(name: string, part: Fragment): Fragment {
    const { schema } = part
    return schema === undefined ? part : { ...part, schema: this.#schema(name, schema) }
  }

  #schema(name: string, schema: unknown): unknown {
    if (typeof schema !== 'object' || schema === null) return schema
    if ('$defs' in schema) {
      return this.#schema(name, this.#definitions.resolve(name, schema))
    }
    const title = (schema as { readonly title?: unknown }).title
    const isTitled = typeof title === 'string' && /^[\w ]+$/.test(title)
    const hint = isTitled ? capitalized(title) : name
    return this.#use('schemas', hint, this.#inSchema(hint, schema as Fragment), isTitled)
  }

  #inSchema(name: string, schema: Fragment): Fragment {
    return mapped(schema, (value, keyword) => {
      if (value === null || typeof value !== 'object') return value
      if (keyword === 'properties') {
        return mapped(value as ByName, (each, key) => this.#schema(capitalized(key), each))
      }
      if (keyword === 'items' || keyword === 'additionalProperties') {
        return this.#schema(`${name}Item`, value)
      }
      if (Array.isArray(value) && ['anyOf', 'allOf', 'oneOf'].includes(keyword)) {
        return value.map((each) => this.#schema(name, each))
      }
      return value
    })
  }

  #use(section: Section, hint: string, value: Fragment, isNamed = false): Use {
    const json = JSON.stringify(value)
    const text = `${section} ${json}`
    const known = this.#uses.get(text)
    if (known) return known
    const part: Part = {
      section, hint, value, length: json.length + lengthInside(value), isNamed, uses: 0, name: undefined,
    }
    const use = new Use(part, this.#uses.size)
    this.#uses.set(text, use)
    return use
  }

  #count(value: unknown): void {
    if (value instanceof Use) {
      const { part } = value
      // A short part is repeated, and so are the parts inside.
      if (++part.uses === 1 || part.length < MIN_LENGTH) this.#count(part.value)
    } else if (typeof value === 'object' && value !== null) {
      for (const each of Object.values(value)) this.#count(each)
    }
  }

  /** Returns a value with references in place of components, without undefined properties. */
  #placed(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#placed(each))
    if (value instanceof Use) {
      const { part } = value
      const isComponent = part.isNamed || (part.uses > 1 && part.length >= MIN_LENGTH)
      if (!isComponent) return this.#placed(part.value)
      part.name ??= this.#add(part)
      return { $ref: `#/components/${part.section}/${part.name}` }
    }
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).flatMap(([key, each]) => (
      each === undefined ? [] : [[key, this.#placed(each)]]
    )))
  }

  #add(part: Part): string {
    const section = this.#components[part.section] ??= {}
    const wanted = part.hint.replaceAll(/[^A-Za-z0-9._-]/g, '')
    const name = uniqueName(wanted, (taken) => taken in section)
    // Reserved before the parts inside get theirs.
    section[name] = undefined
    section[name] = retitled(name, wanted, this.#placed(part.value) as Fragment)
    return name
  }
}

/**
 * If the name of a schema has a number, makes this name its title, because generators name types by
 * titles.
 */
function retitled(name: string, wanted: string, value: Fragment): Fragment {
  const { title } = value
  if (name === wanted || typeof title !== 'string' || capitalized(title) !== wanted) return value
  return { ...value, title: name }
}

export function uniqueName(wanted: string, isTaken: (name: string) => boolean): string {
  let name = wanted
  for (let number = 2; isTaken(name); number++) name = `${wanted}${number}`
  return name
}

/** Errors of many operations are alike, so they are named by their code, or else by their status. */
function nameOfResponse(title: string, status: string, { description }: Fragment): string {
  if (description === unexpectedError['description']) return 'UnexpectedError'
  if (description === notModified['description']) return 'NotModified'
  if (!/^[45]\d\d$/.test(status)) return title + capitalized(status)
  const code = onlyCode(String(description))
  if (code !== undefined) return capitalized(code)
  return reasonPhrase(Number(status)).replaceAll(/[^A-Za-z]/g, '')
}

export function capitalized(text: string): string {
  return text.split(/[^A-Za-z0-9]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

/** Returns the length of the parts inside a value. */
function lengthInside(value: unknown): number {
  if (value instanceof Use) return value.part.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce((sum: number, each) => sum + lengthInside(each), 0)
}

function mapped<T, U>(values: ByName<T>, map: (value: T, name: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value, name)]))
}

function sorted<T>(values: ByName<T>): Record<string, T> {
  return Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)))
}
