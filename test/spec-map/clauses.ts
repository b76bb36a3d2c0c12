/** One clause of docs/SPEC.md: a numbered rule, a table, a row of one, or an endpoint. */
export interface Clause {
  /**
   * Section and rule, such as `4.6.2`; the section alone for its table or endpoint; a row's first
   * cell where each row is a promise.
   */
  readonly id: string
  readonly about: string
  /** What the clause waits for, while no test proves it. */
  readonly planned?: string
}

/** Every clause. A test that proves one starts its title with `SPEC <id>:` (or `SPEC <id>, <id>:`). */
export const CLAUSES: readonly Clause[] = [
  { id: '1.1', about: 'resource operations through the nine methods' },
  { id: '1.2', about: 'bulk operations and streamed transfer' },
  { id: '1.3', about: 'asynchronous processing, acknowledged at once' },
  { id: '1.4', about: 'record streams as NDJSON' },
  { id: '1.5', about: 'standard status codes for failures' },

  { id: '2.1', about: 'user record' },
  { id: '2.2', about: 'bulk create body' },
  { id: '2.3', about: 'bulk update body' },
  { id: '2.4', about: 'acknowledgement: message and taskId' },
  { id: '2.5', about: 'task status: status, result with a message' },
  { id: '2.6', about: 'jobId and statusUrl; id and state' },
  { id: '2.7', about: 'callback submission: taskData and callbackUrl' },
  { id: '2.8', about: 'long-running task body: task and data' },
  { id: '2.9', about: 'error body with a string error' },

  { id: '3.1', about: 'processing at once, then completed with a result' },

  { id: '4.1.GET', about: 'read; 200, 404' },
  { id: '4.1.POST', about: 'create; 201, 400' },
  { id: '4.1.PUT', about: 'replace or create; 200, 201, 204' },
  { id: '4.1.PATCH', about: 'named fields only; 200, 204, 400' },
  { id: '4.1.DELETE', about: 'remove; 200, 204, 404' },
  { id: '4.1.HEAD', about: 'GET without a body' },
  { id: '4.1.OPTIONS', about: 'supported methods; preflight' },
  { id: '4.1.TRACE', about: 'echo' },
  { id: '4.1.CONNECT', about: 'tunnel' },
  { id: '4.2', about: 'GET /api/users in batches' },
  { id: '4.3', about: 'POST /api/users/bulk' },
  { id: '4.3.1', about: 'each item validated separately' },
  { id: '4.3.2', about: 'failures reported in detail' },
  { id: '4.4', about: 'PATCH /api/users/bulk-update' },
  { id: '4.4.1', about: 'atomic where possible' },
  { id: '4.4.2', about: 'partial success reported' },
  { id: '4.5', about: 'GET /api/files/large-file: chunks, pause, resume' },
  { id: '4.6', about: 'POST /api/long-running-task' },
  { id: '4.6.1', about: 'respond-async: 202 at once' },
  { id: '4.6.2', about: 'Location and Content-Location hold the status path' },
  { id: '4.6.3', about: '202 body is the acknowledgement' },
  { id: '4.6.4', about: 'work continues in the background' },
  { id: '4.6.5', about: 'no preference: synchronous, message, no 202' },
  { id: '4.6.poll', about: 'GET /api/status/{task_id}: 200, 404' },
  { id: '4.7', about: 'POST /start-job and GET /job-status/{id}' },
  { id: '4.8', about: 'callback flow' },
  { id: '4.9', about: 'GET /bulk-data and POST /upload-ndjson' },
  { id: '4.9.format.1', about: 'application/x-ndjson' },
  { id: '4.9.format.2', about: 'one complete object a line' },
  { id: '4.9.format.3', about: 'newline between lines' },
  { id: '4.9.format.4', about: 'objects processed one at a time' },
  { id: '4.9.upload.1', about: 'each line parsed separately' },
  { id: '4.9.upload.2', about: 'a bad line is skipped' },
  { id: '4.9.upload.3', about: 'gzip and the like allowed' },

  { id: '5.1', about: 'asynchronous, bulk and changing requests are protected' },
  { id: '5.2', about: 'no valid credentials: 401' },
  { id: '5.3', about: 'no permission: 403' },

  { id: '6.1', about: 'callback when a task is finished' },
  { id: '6.2', about: 'server-sent events as an option' },

  { id: '7.400', about: 'Bad Request' },
  { id: '7.401', about: 'Unauthorized' },
  { id: '7.403', about: 'Forbidden' },
  { id: '7.404', about: 'Not Found' },
  { id: '7.405', about: 'Method Not Allowed' },
  { id: '7.409', about: 'Conflict' },
  { id: '7.422', about: 'Unprocessable Entity' },
  { id: '7.429', about: 'Too Many Requests' },
  { id: '7.500', about: 'Internal Server Error' },
  { id: '7.501', about: 'Not Implemented' },
  { id: '7.502', about: 'Bad Gateway' },
  { id: '7.503', about: 'Service Unavailable' },
  { id: '7.504', about: 'Gateway Timeout' },
  { id: '7.1', about: 'descriptive message in error' },
  { id: '7.2', about: 'one error structure: code, message, details' },
  { id: '7.3', about: 'no stack traces or internals' },
  { id: '7.4', about: 'bulk failures for each item' },
  { id: '7.5', about: 'bad NDJSON line skipped' },
  { id: '7.6', about: 'background failure shows on the status resource' },

  { id: '8.1', about: 'size limits enforced' },
  { id: '8.2', about: 'rate limit: 429' },
  { id: '8.3', about: 'timeouts' },

  { id: '9.uri-versioning', about: 'version in the path' },
  { id: '9.header-versioning', about: 'vendor media type in Accept' },
  { id: '9.query-parameter-versioning', about: 'query parameter version' },
  { id: '9.content-negotiation', about: 'version parameter in Accept' },
  { id: '9.1', about: 'a version stays compatible' },
  { id: '9.2', about: 'Deprecation header as an HTTP date' },
  { id: '9.3', about: 'semantic versioning' }
]
