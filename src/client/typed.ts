/**
 * The result of a task on the wire (SPEC 2.5): always an object with a message. An object without a
 * message gains one. Any other value becomes the member `value`.
 */
export type TaskResult<R> =
  unknown extends R ? { readonly message: string, readonly [name: string]: unknown }
    : [R] extends [void] ? { message: string }
      : [R] extends [string | number | boolean | null] ? { message: string, value: R }
        : R extends readonly unknown[] ? { message: string, value: R }
          : R extends { message: infer M } ? M extends string ? R : { message: string, value: R }
            : R extends object ? { message: string } & R
              : R extends undefined ? { message: string }
                : { message: string, value: R }

/** A definition that `defineTask` of `longhaul` made, by its types. */
export interface DefinitionLike<Name = string, Input = unknown, Result = unknown> {
  /** For the compiler only: never set. `result` is the JSON form of what `run` returns. */
  readonly '~types'?: { readonly name: Name, readonly input: Input, readonly result: Result }
  /** Not called by the client. */
  readonly run: (input: never, context: never) => unknown
}

/** The types of a task by themselves. */
export interface NamedTypes<Input = unknown, Result = unknown> {
  /** What is submitted. */
  readonly input: Input
  /** The result as clients see it. */
  readonly result: Result
}

/**
 * Names the types of a task: a definition that `defineTask` made (`typeof definition`, by
 * `import type`), or `{ input, result }`, as `OpenApiTask` gives it.
 */
export type TaskTypes = DefinitionLike | NamedTypes

/** The input that is submitted: the input of the schema of the definition. */
export type InputOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer I> ? I : T extends NamedTypes<infer I> ? I : never

/** The result as clients see it: the JSON form of what `run` returns, with a message. */
export type ResultOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer _, infer R> ? TaskResult<R>
    : T extends NamedTypes<unknown, infer R> ? R : never

/** The types of a POST in the `paths` that openapi-typescript makes of an OpenAPI document. */
export interface OpenApiTask<Paths, Path extends keyof Paths> extends NamedTypes {
  readonly input: Paths[Path] extends {
    post: { requestBody?: { content: { 'application/json': infer I } } }
  } ? I : unknown
  readonly result: Paths[Path] extends {
    post: { responses: { 200: { content: { 'application/json': infer R } } } }
  } ? R : unknown
}
