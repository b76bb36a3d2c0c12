/** A question that a run has asked. Times are milliseconds since 1970. */
export interface InputDetails {
  /** Name of the schema of the answer, among `asks` of the definition. */
  readonly kind: string
  readonly message: string
  /** JSON Schema of the answer, if its library can return it. */
  readonly schema?: Readonly<Record<string, unknown>> | undefined
  readonly askedAt: number
  readonly expiresAt: number
  /** The answer, as a client sent it. */
  readonly answer?: { readonly value: unknown } | undefined
  /** `true` if a run has seen that nobody answered in time. */
  readonly isTimedOut?: true | undefined
}

/** The questions of a task by their keys, in the order in which they were asked. */
export type Inputs = Readonly<Record<string, InputDetails>>

/** Returns whether a client can still answer a question. */
export function isOpen({ answer, isTimedOut }: InputDetails): boolean {
  return answer === undefined && isTimedOut !== true
}

/** Returns the questions that a client can still answer. */
export function openInputs(inputs: Inputs): Inputs {
  return Object.fromEntries(Object.entries(inputs).filter(([, input]) => isOpen(input)))
}

/** Returns the JSON of the questions that have no answer. */
export function openInputsText(inputs: Inputs): string {
  return JSON.stringify(Object.fromEntries(Object.entries(openInputs(inputs)).map(([key, { message, schema, askedAt, expiresAt }]) => [key, {
    message, schema, askedAt: new Date(askedAt).toISOString(), expiresAt: new Date(expiresAt).toISOString(),
  }])))
}
