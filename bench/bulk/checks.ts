// The validators of the peers, compiled once.
import { Ajv2020 } from 'ajv/dist/2020.js'
import * as v from 'valibot'
import { z } from 'zod'
import { EMAIL, USER_SCHEMA, type Check, type Draft } from './users.js'

export function ajvCheck(): Check {
  const validate = new Ajv2020({ allErrors: true }).compile<Draft>(USER_SCHEMA)
  return (item) => (validate(item) ? item : (validate.errors ?? []).map(({ instancePath, message }) => ({ pointer: instancePath, message: message ?? '' })))
}

export function zodCheck(): Check {
  const schema = z.strictObject({ name: z.string().min(1), email: z.string().regex(EMAIL), role: z.enum(['admin', 'editor', 'viewer']) })
  return (item) => {
    const { success, data, error } = schema.safeParse(item)
    return success ? data : error.issues.map(({ path, message }) => ({ pointer: `/${path.join('/')}`, message }))
  }
}

export function valibotCheck(): Check {
  const schema = v.strictObject({
    name: v.pipe(v.string(), v.minLength(1)), email: v.pipe(v.string(), v.regex(EMAIL)),
    role: v.picklist(['admin', 'editor', 'viewer']),
  })
  return (item) => {
    const { success, output, issues } = v.safeParse(schema, item)
    return success ? output : issues.map(({ path, message }) => ({ pointer: `/${(path ?? []).map(({ key }) => String(key)).join('/')}`, message }))
  }
}
