/** A preference of the header Prefer (RFC 7240). */
export type Preference =
  | 'respond-async' | `wait=${number}` | 'return=minimal' | 'return=representation'
  | 'handling=strict' | 'handling=lenient'

/** The name of a preference. */
export type PreferenceName = Preference extends infer P ? P extends `${infer Name}=${string}` ? Name : P : never
