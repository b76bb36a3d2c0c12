import { reasonPhrase } from '../http/failure.js'
import type { Fragment } from './operation.js'

type Section = 'schemas' | 'responses' | 'headers' | 'parameters' | 'requestBodies'
type ByName<T = Fragment> = Readonly<Record<string, T>>

/** Parts whose JSON is shorter stay where they are used: a reference would not be shorter. */
const MIN_LENGTH = 80

/** A schema, response, header, parameter or request body. Equal ones are one part. */
interface Part {
  readonly section: Section
  readonly hint: string
  readonly value: Fragment
  readonly length: number
  readonly isNamed: boolean
  uses: number
  name: string | undefined
}

class Use {
  constructor(readonly part: Part, private readonly index: number) {}

  /** Represents the part in the JSON of the parts around it, which shows if those are equal. */
  toJSON(): number {
    return this.index
  }
}

export class Components {
  readonly #uses = new Map<string, Use>()
  readonly #components: Record<string, Record<string, unknown>> = {}

  name(section: Section, name: string, value: Fragment): void {
    this.#use(section, name, section === 'schemas' ? this.#inSchema(name, value) : value, true)
  }

  operation(id: string, { parameters, requestBody, responses, ...rest }: Fragment): Fragment {
    const title = capitalized(id)
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
        const name = nameOfResponse(title, status)
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
    }
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
    const title = (schema as { readonly title?: unknown }).title
    const hint = typeof title === 'string' && /^[\w ]+$/.test(title) ? capitalized(title) : name
    return this.#use('schemas', hint, this.#inSchema(hint, schema as Fragment))
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
    const text = JSON.stringify([section, value])
    const known = this.#uses.get(text)
    if (known) return known
    const part: Part = {
      section, hint, value, length: text.length, isNamed, uses: 0, name: undefined,
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
    let name = wanted
    for (let number = 2; name in section; number++) name = `${wanted}${number}`
    // Reserved before the parts inside get theirs.
    section[name] = undefined
    section[name] = this.#placed(part.value)
    return name
  }
}

/** Errors of many operations are alike, so they are named by their status. */
function nameOfResponse(title: string, status: string): string {
  if (status === 'default') return 'UnexpectedError'
  if (Number(status) < 400) return `${title}${status}`
  return reasonPhrase(Number(status)).replaceAll(/[^A-Za-z]/g, '')
}

function capitalized(text: string): string {
  return text.split(/[^A-Za-z0-9]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

function mapped<T, U>(values: ByName<T>, map: (value: T, name: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value, name)]))
}

function sorted<T>(values: ByName<T>): Record<string, T> {
  return Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)))
}
