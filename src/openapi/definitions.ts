import type { Fragment } from './fragment.js'

/** Key of the definition that is the whole schema. */
const ROOT = '__root'

/**
 * Returns a schema whose references to itself (`#`) lead to a definition, because the schema may
 * become a part of another schema.
 */
export function nameRoot(schema: Fragment): Fragment {
  if (!JSON.stringify(schema).includes('"$ref":"#"')) return schema
  const { $defs, ...root } = withReferences(schema, (reference) => (
    reference === '#' ? `#/$defs/${ROOT}` : reference
  )) as Fragment
  return { $ref: `#/$defs/${ROOT}`, $defs: { ...$defs as Fragment | undefined, [ROOT]: root } }
}

/**
 * Replaces references to the definitions (`$defs`) of a schema by references to components. In a
 * document, `#` is the document.
 */
export class Definitions {
  readonly #references = new Map<string, string>()

  /** `add` makes a definition a component. It returns the reference, and sets the value later. */
  constructor(
    private readonly add: (name: string) => readonly [reference: string, set: (value: Fragment) => void],
  ) {}

  /** `name` is the name of the whole schema. */
  resolve(name: string, { $defs, ...schema }: Fragment): Fragment {
    const definitions = $defs as Readonly<Record<string, Fragment>>
    const text = JSON.stringify($defs)
    const referenceTo = (reference: string): string => {
      const key = reference.replace(/^#\/\$defs\//, '').replaceAll('~1', '/').replaceAll('~0', '~')
      const definition = key === reference ? undefined : definitions[key]
      if (definition === undefined) return reference
      const known = this.#references.get(`${key} ${text}`)
      if (known !== undefined) return known
      const { title } = definition
      const [added, set] = this.add(
        typeof title === 'string' && /^[\w ]+$/.test(title) ? title : key === ROOT ? name : key,
      )
      this.#references.set(`${key} ${text}`, added)
      set(withReferences(definition, referenceTo) as Fragment)
      return added
    }
    return withReferences(schema, referenceTo) as Fragment
  }
}

/** Copies a schema with other references. */
function withReferences(value: unknown, map: (reference: string) => string): unknown {
  if (Array.isArray(value)) return value.map((each) => withReferences(each, map))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [
    key, key === '$ref' && typeof each === 'string' ? map(each) : withReferences(each, map),
  ]))
}
