import { members, text, type Face } from './faces.js'

/**
 * The job face (SPEC 2.6): `{ id, state, jobId, statusUrl, … }`. Submission and status share it, so
 * that the 202's Content-Location tells the truth.
 */
export const jobFace: Face = {
  toText: (task, statusPath) => {
    const { taskId, status, ...rest } = JSON.parse(task.face) as { taskId: string; status: string }
    return JSON.stringify({ id: taskId, state: status === 'processing' ? task.state : status, jobId: taskId, statusUrl: statusPath, ...rest })
  },
  notFound: 'job_not_found',
  schema: {
    type: 'object',
    required: ['id', 'state', 'jobId', 'statusUrl', 'message', 'task', 'createdAt'],
    properties: {
      id: text,
      state: { enum: ['queued', 'processing', 'completed', 'failed', 'cancelled'] },
      jobId: text,
      statusUrl: { type: 'string', format: 'uri-reference' },
      ...members,
    },
  },
}
