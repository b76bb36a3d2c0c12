/**
 * The value that a task's result becomes on the wire: always an object with a message (SPEC 2.5).
 */
export type WithMessage<R> = R extends readonly unknown[] ? { message: string; value: R }
  : R extends object ? { message: string } & R
    : { message: string; value: R }

/** As much of a definition as its types are in. */
export interface DefinitionLike<Input = never, Result = unknown> {
  /** Does the work; never called here. */
  readonly run: (input: Input, context: never) => Result
}

/** The types of a task by themselves. */
export interface NamedTypes<Input = unknown, Result = unknown> {
  /** What it takes. */
  readonly input: Input
  /** What it gives, as clients see it. */
  readonly result: Result
}

/**
 * What names the types of a task: a definition that `defineTask` made (`typeof definition`, by
 * `import type`), or `{ input, result }`, as `OpenApiTask` gives it.
 */
export type TaskTypes = DefinitionLike | NamedTypes

/** What a task takes. */
export type InputOf<T extends TaskTypes> = T extends DefinitionLike<infer I> ? I : T extends NamedTypes<infer I> ? I : never

/** What a task gives, as clients see it. */
export type ResultOf<T extends TaskTypes> = T extends DefinitionLike<never, infer R> ? WithMessage<Awaited<R>>
  : T extends NamedTypes<unknown, infer R> ? R : never

/**
 * The types of a POST of an OpenAPI document, from the `paths` that openapi-typescript makes of it.
 */
export interface OpenApiTask<Paths, Path extends keyof Paths> extends NamedTypes {
  readonly input: Paths[Path] extends { post: { requestBody?: { content: { 'application/json': infer I } } } } ? I : unknown
  readonly result: Paths[Path] extends { post: { responses: { 200: { content: { 'application/json': infer R } } } } } ? R : unknown
}
