/**
 * Statuses of requests without an effect: the request, its credentials or conditions were refused.
 */
const REFUSED = new Set([
  400, 401, 403, 404, 405, 406, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429,
  431, 501,
])

/**
 * Returns true if a response means that the request had no effect, so that a retry may do the work.
 * Besides the statuses of refusals, this is a 503 with Retry-After. Other statuses, such as 409, 422
 * and 500, are results of the work.
 */
export function isRefusal(status: number, headers: Readonly<Record<string, unknown>>): boolean {
  return REFUSED.has(status)
    || (status === 503 && headers['retry-after'] !== undefined)
}
