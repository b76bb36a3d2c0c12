import { isJsonObject } from './json.js'

type Schema = Readonly<Record<string, unknown>>

/**
 * The properties and items that a JSON Schema names. Alternatives (`anyOf`, `oneOf`, `then`, `else`)
 * and parts (`allOf`, `$ref`) count together, so no value has to be validated.
 */
export interface JsonShape {
  /** Named properties; `undefined` if the schema names none, so that all are written. */
  readonly properties: ReadonlyMap<string, JsonShape> | undefined
  /** Returns the shape of a property; `undefined` if the schema does not name it. */
  property(name: string): JsonShape | undefined
  /** True if properties that `properties` does not have are written. */
  readonly isOpen: boolean
  /** The type, with `number` for `integer`; `undefined` if the schema names none or several. */
  readonly type: string | undefined
  /** Shape of the elements of an array; `undefined` if the schema says nothing about them. */
  readonly items: JsonShape | undefined
}

/**
 * Reads the shape of a schema.
 * @throws {TypeError} The schema is no object, or a `$ref` is not in it.
 */
export function shapeOf(where: string, schema: unknown): JsonShape {
  if (!isJsonObject(schema)) throw new TypeError(`${where}: the schema must be a JSON Schema object`)
  return new Shapes(where, schema).of([schema])
}

class Shapes {
  /**
   * Shapes by the numbers of their schemas, so that a recursive schema has a finite number of
   * shapes.
   */
  private readonly known = new Map<string, Shape>()
  private readonly numbers = new Map<Schema, number>()
  private readonly named = new Map<string, Schema>()

  constructor(private readonly where: string, private readonly root: Schema) {
    this.name(root)
  }

  of(schemas: readonly unknown[]): JsonShape {
    const all = new Set<Schema>()
    for (const schema of schemas) this.collect(schema, all)
    const key = [...all].map((schema) => this.numberOf(schema)).join()
    const known = this.known.get(key)
    if (known !== undefined) return known
    const shape = new Shape([...all])
    this.known.set(key, shape)
    shape.read(this)
    return shape
  }

  /** Adds a schema, its parts and its alternatives. */
  private collect(schema: unknown, all: Set<Schema>): void {
    if (!isJsonObject(schema) || all.has(schema)) return
    all.add(schema)
    const { $ref, allOf, anyOf, oneOf, then, else: otherwise } = schema
    if (typeof $ref === 'string') this.collect(this.resolve($ref), all)
    for (const parts of [allOf, anyOf, oneOf, [then, otherwise]]) {
      if (Array.isArray(parts)) for (const part of parts) this.collect(part, all)
    }
  }

  private numberOf(schema: Schema): number {
    const number = this.numbers.get(schema) ?? this.numbers.size
    this.numbers.set(schema, number)
    return number
  }

  /** Notes the schemas that have an `$id` or `$anchor`. */
  private name(value: unknown, seen = new Set<unknown>()): void {
    if (typeof value !== 'object' || value === null || seen.has(value)) return
    seen.add(value)
    const { $id, $anchor } = value as Schema
    if (typeof $id === 'string') this.named.set($id, value as Schema)
    if (typeof $anchor === 'string') this.named.set(`#${$anchor}`, value as Schema)
    for (const child of Object.values(value)) this.name(child, seen)
  }

  private resolve(ref: string): unknown {
    const named = this.named.get(ref)
    if (named !== undefined) return named
    const [base = '', pointer = ''] = ref.split('#')
    let found: unknown = base === '' ? this.root : this.named.get(base)
    for (const part of decodeURIComponent(pointer).split('/').slice(1)) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
      found = Object.hasOwn(Object(found) as object, name) ? (found as Schema)[name] : undefined
    }
    if (typeof found === 'boolean' || isJsonObject(found)) return found
    throw new TypeError(`${this.where}: the schema has no part ${ref}, which a $ref names`)
  }
}

class Shape implements JsonShape {
  properties: Map<string, JsonShape> | undefined
  items: JsonShape | undefined
  isOpen = true
  type: string | undefined
  private patterns: (readonly [pattern: RegExp, shape: JsonShape])[] = []
  private rest: JsonShape | undefined

  constructor(private readonly schemas: readonly Schema[]) {}

  read(shapes: Shapes): void {
    const properties = listsOf(this.schemas, 'properties')
    const patterns = listsOf(this.schemas, 'patternProperties')
    const rest = valuesOf(this.schemas, 'additionalProperties')
    const items = this.schemas.flatMap(({ items, prefixItems }) => [items, prefixItems].flat())
      .filter((each) => each !== undefined && each !== false)
    if (items.length > 0) this.items = shapes.of(items)
    this.type = onlyTypeOf(this.schemas)
    this.isOpen = patterns.size > 0 || rest.some((each) => each !== false)
    this.patterns = [...patterns].map(([source, each]) => [new RegExp(source, 'u'), shapes.of(each)])
    if (rest.some((each) => each !== false)) this.rest = shapes.of(rest)
    const namesNone = properties.size === 0 && patterns.size === 0 && rest.length === 0
    if (namesNone) this.isOpen = true
    else this.properties = new Map([...properties].map(([name, each]) => [name, shapes.of(each)]))
  }

  property(name: string): JsonShape | undefined {
    return this.properties?.get(name)
      ?? this.patterns.find(([pattern]) => pattern.test(name))?.[1] ?? this.rest
  }
}

function valuesOf(schemas: readonly Schema[], keyword: string): unknown[] {
  return schemas.map((schema) => schema[keyword]).filter((value) => value !== undefined)
}

function onlyTypeOf(schemas: readonly Schema[]): string | undefined {
  const types = new Set(valuesOf(schemas, 'type').flat())
  if (types.delete('integer')) types.add('number')
  const [type] = types
  return types.size === 1 && typeof type === 'string' ? type : undefined
}

/** Returns the schemas that each name has in a keyword such as `properties`. */
function listsOf(schemas: readonly Schema[], keyword: string): Map<string, unknown[]> {
  const lists = new Map<string, unknown[]>()
  for (const value of valuesOf(schemas, keyword)) {
    for (const [name, schema] of Object.entries(Object(value) as Schema)) {
      lists.set(name, [...lists.get(name) ?? [], schema])
    }
  }
  return lists
}
