/** Members that the default context of a binding has, or that `authenticate` adds. */
type HostMember = 'user' | 'principal'

/**
 * Arguments after the handler in a binding, or after the request in a handler that a binding made.
 *
 * They are optional if the default context of the binding is enough for the handler. Otherwise
 * `context` is required. `Given` names the members of the default context.
 */
export type ContextArguments<C, Options extends object, Given extends string = HostMember> =
  object extends Omit<C, Given>
    ? [options?: Options]
    : [optionsWithContext: Options & WithContext<Options>]

/** The option `context`, required. */
export type WithContext<Options extends object> = {
  readonly [K in keyof Options as K extends 'context' ? K : never]-?: NonNullable<Options[K]>
}
