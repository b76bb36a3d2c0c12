import { ERROR_CODES } from './errors.js'

/** Reason phrases of the error statuses, as node:http writes them. */
const PHRASES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  407: 'Proxy Authentication Required',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  411: 'Length Required',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
  421: 'Misdirected Request',
  422: 'Unprocessable Entity',
  423: 'Locked',
  424: 'Failed Dependency',
  425: 'Too Early',
  426: 'Upgrade Required',
  428: 'Precondition Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  451: 'Unavailable For Legal Reasons',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported',
  507: 'Insufficient Storage',
  508: 'Loop Detected',
  511: 'Network Authentication Required',
}

/** First code of longhaul for each status, with its message. */
const FIRST_CODES = new Map<number, { code: string; message: string }>()
for (const [code, [status, message]] of Object.entries(ERROR_CODES)) {
  if (!FIRST_CODES.has(status)) FIRST_CODES.set(status, { code, message })
}

/** Returns the reason phrase of an error status, or the name of its class if it has none. */
export function reasonPhrase(status: number): string {
  return PHRASES[status] ?? (status < 500 ? 'Client Error' : 'Server Error')
}

/**
 * Returns a code and a message for an error that has only a status. Derives both from the reason
 * phrase if longhaul has no code for the status.
 */
export function generalError(status: number): { readonly code: string; readonly message: string } {
  const known = FIRST_CODES.get(status)
  if (known !== undefined) return known
  const phrase = reasonPhrase(status)
  return { code: phrase.toLowerCase().replaceAll(' ', '_'), message: `${phrase}.` }
}
