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

/** The types of a definition that `defineTask` of `longhaul` returned. */
export interface DefinitionLike<Name = string, Input = unknown, Result = unknown> {
  /** For the compiler only; never set. `result` is the JSON form of what `run` returns. */
  readonly '~types'?: { readonly name: Name, readonly input: Input, readonly result: Result }
  /** Never called by the client. */
  readonly run: (input: never, context: never) => unknown
}

/** The types of a task without a definition. */
export interface NamedTypes<Input = unknown, Result = unknown> {
  /** Input that is submitted. */
  readonly input: Input
  /** Result of the completed task. */
  readonly result: Result
}

/**
 * The types of a task: `typeof` a definition of `defineTask`, or `{ input, result }`. `OpenApiTask`
 * is of the second form.
 */
export type TaskTypes = DefinitionLike | NamedTypes

/** Input that is submitted: the input of the definition's schema. */
export type InputOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer I> ? I : T extends NamedTypes<infer I> ? I : never

/** Result of a completed task: the JSON form of what `run` returns, with a message. */
export type ResultOf<T extends TaskTypes> =
  T extends DefinitionLike<infer _, infer _, infer R> ? TaskResult<R>
    : T extends NamedTypes<unknown, infer R> ? R : never

/** The types of a POST in `paths`, which openapi-typescript generates from an OpenAPI document. */
export interface OpenApiTask<Paths, Path extends keyof Paths> extends NamedTypes {
  readonly input: Paths[Path] extends {
    post: { requestBody?: { content: { 'application/json': infer I } } }
  } ? I : unknown
  readonly result: Paths[Path] extends {
    post: { responses: { 200: { content: { 'application/json': infer R } } } }
  } ? R : unknown
}
