import { ERROR_CODES } from './errors.js'

/**
 * The reason phrases of the error statuses, as node:http writes them in the status line: of those
 * that a code of longhaul's own has.
 */
const OWN: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
  422: 'Unprocessable Entity',
  424: 'Failed Dependency',
  428: 'Precondition Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

/** Of the others. Apart, because what needs only these has only these in its bundle. */
const OTHERS: Readonly<Record<number, string>> = {
  402: 'Payment Required',
  407: 'Proxy Authentication Required',
  411: 'Length Required',
  414: 'URI Too Long',
  421: 'Misdirected Request',
  423: 'Locked',
  425: 'Too Early',
  426: 'Upgrade Required',
  451: 'Unavailable For Legal Reasons',
  505: 'HTTP Version Not Supported',
  507: 'Insufficient Storage',
  508: 'Loop Detected',
  511: 'Network Authentication Required',
}

const GENERAL = new Map<number, { code: string; message: string }>()
for (const [code, [status, message]] of Object.entries(ERROR_CODES)) {
  if (!GENERAL.has(status)) GENERAL.set(status, { code, message })
}

/** The reason phrase of an error status; the class of it where there is none. */
export function reasonPhrase(status: number): string {
  return OWN[status] ?? otherReason(status)
}

function otherReason(status: number): string {
  return OTHERS[status] ?? (status < 500 ? 'Client Error' : 'Server Error')
}

/**
 * Code and sentence for an error of which only the status is told: longhaul's own, else made of the
 * reason phrase.
 */
export function generalError(status: number): { readonly code: string; readonly message: string } {
  const known = GENERAL.get(status)
  if (known !== undefined) return known
  const reason = otherReason(status)
  return { code: reason.toLowerCase().replaceAll(' ', '_'), message: `${reason}.` }
}
