/** Values that JSON leaves out, empties or refuses. */
type NotJson = ((...args: never) => unknown) | bigint | symbol
  | ReadonlyMap<unknown, unknown> | ReadonlySet<unknown> | WeakKeyed | ArrayBuffer | ArrayBufferView
type WeakKeyed = WeakMap<WeakKey, unknown> | WeakSet<WeakKey>

type Scalar = string | number | boolean | null | undefined

/**
 * The type of a value after `JSON.parse(JSON.stringify(value))`: what clients and hosts see of a
 * result. A `Date` becomes a `string`, as does every value whose `toJSON` returns one. An
 * `undefined` in an array becomes `null`.
 */
export type JsonForm<T> =
  unknown extends T ? T
    : T extends Scalar ? T
      : T extends {
        /** Returns the JSON form. */
        toJSON: (...args: never) => infer J
      } ? JsonForm<J>
        : T extends NotJson ? never
          : T extends readonly unknown[] ? { [K in keyof T]: JsonItem<T[K]> }
            : T extends object ? { [K in keyof T]: JsonForm<T[K]> }
              : T

type JsonItem<T> = T extends undefined ? null : JsonForm<T>

/** A compiler shows the name of the member for a value that JSON can't carry. */
interface NotJsonError {
  readonly 'JSON cannot carry this value: no function, Map, Set, symbol, bigint or buffer': never
}

/** `T` if JSON can carry it. Otherwise a type to which `T` is not assignable. */
export type JsonSafe<T> =
  unknown extends T ? unknown
    : T extends Scalar | void ? T
      : T extends {
        /** Returns the JSON form. */
        toJSON: (...args: never) => unknown
      } ? T
        : T extends NotJson ? NotJsonError
          : T extends object ? { [K in keyof T]: JsonSafe<T[K]> }
            : T
