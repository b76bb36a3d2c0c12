/** Members that the default context of a binding has, or that `authenticate` adds. */
type HostMember = 'user' | 'principal'

/**
 * Arguments after the handler in a binding, or after the request in a handler that a binding made.
 *
 * They are optional if the default context of the binding is enough for the handler. Otherwise
 * `context` is required. `Given` names the members of the default context.
 */
export type ContextArguments<C, Argument extends object, Given extends string = HostMember> =
  object extends Omit<C, Given>
    ? [options?: Argument]
    : [optionsWithContext: Argument & WithContext<Argument>]

/** The member `context` of an argument, required. */
export type WithContext<Argument extends object> = {
  readonly [K in keyof Argument as K extends 'context' ? K : never]-?: NonNullable<Argument[K]>
}
