import { nearest } from '../runtime/option-names.js'

/** The IANA registry of HTTP methods, and what Node's parser takes beside them. */
const REGISTERED: ReadonlySet<string> = new Set((
  'ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL '
  + 'MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI PROPFIND PROPPATCH PUT QUERY REBIND REPORT SEARCH TRACE UNBIND '
  + 'UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL M-SEARCH NOTIFY PURGE SOURCE SUBSCRIBE UNSUBSCRIBE'
).split(' '))

/** The names that a misspelling is most likely to be meant for. */
const USUAL = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY']

/**
 * Tells why a method is refused: it is not registered with IANA, and `extensionMethods` does not
 * name it.
 * @returns the message, or `undefined` for a method that is known
 */
export function unknownMethod(method: string, extensionMethods: readonly string[]): string | undefined {
  if (REGISTERED.has(method) || extensionMethods.includes(method)) return undefined
  const meant = nearest(method, USUAL)
  const advice = meant === undefined ? '' : `; did you mean ${meant}?`
  return `${method} is no registered method${advice || '.'} The usual ones are ${USUAL.join(', ')}; name one of your own in the option extensionMethods`
}
