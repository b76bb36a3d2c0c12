import type { AnyTaskDefinition } from './define.js'

/** The definitions that `createTasks` is given. */
export type Definitions = readonly AnyTaskDefinition[]

type TypesOf<T extends AnyTaskDefinition> = NonNullable<T['~types']>

/** The name of a definition: `NameOf<typeof report>` is `'report'`. */
export type NameOf<T extends AnyTaskDefinition> = TypesOf<T>['name']

/** The input that `submit` takes for a definition. */
export type InputOf<T extends AnyTaskDefinition> = TypesOf<T>['input']

/** The context that `run` of a definition needs. `unknown` if it needs none. */
export type ContextOf<T extends AnyTaskDefinition> = TypesOf<T>['context']

/** The result of a completed task: the JSON form of what `run` returned, with a message. */
export type ResultOf<T extends AnyTaskDefinition> = TaskResult<TypesOf<T>['result']>

/**
 * A result as it is stored (SPEC 2.5): always an object with a message. An object without a message
 * gains one. Any other value becomes the member `value`.
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
