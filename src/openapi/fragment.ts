/** A piece of an OpenAPI document: plain data, never changed. */
export type Fragment = Readonly<Record<string, unknown>>

/** A schema for each property of `T`. */
export type Properties<T> = Readonly<Record<keyof T, Fragment>>
