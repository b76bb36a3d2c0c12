import type { BulkAsked, BulkSettings } from './options.js'

type Handling = BulkAsked['handling']

/** Returns true if a batch may be applied in part. Never with `atomic: true`. */
export function mayBePartial<T>({ atomic, transaction, resume, writer }: BulkSettings<T>): boolean {
  if (transaction === undefined) return true
  // Single writes of many items have no common position at which a task could resume.
  return atomic === 'if-possible' && (resume === undefined || writer.many !== undefined)
}

/** Returns the preference `handling` (RFC 7240 section 4.4) of a client if it is honoured. */
export function honoured<T>(settings: BulkSettings<T>, handling: Handling): Handling {
  const isHonoured = handling === 'lenient' ? mayBePartial(settings) : settings.transaction
  return isHonoured ? handling : undefined
}

/** Returns the settings of one batch: a lenient one is written without the transaction. */
export function settingsFor<T>(settings: BulkSettings<T>, handling: Handling): BulkSettings<T> {
  return handling === 'lenient' ? { ...settings, transaction: undefined } : settings
}

/**
 * Returns a value that is equal for two requests with one Idempotency-Key if they are the same
 * work.
 */
export function identityOf(body: unknown, handling: Handling): unknown {
  return handling === 'lenient' ? { handling, body } : body
}
