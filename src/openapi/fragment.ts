/** A piece of an OpenAPI document: plain data, never changed. */
export type Fragment = Readonly<Record<string, unknown>>
