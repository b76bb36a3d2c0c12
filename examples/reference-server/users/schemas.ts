import { jsonSchema, type DescribedSchema } from 'longhaul'
import { USER_ROLES, type User, type UserChange, type UserDraft, type UserRole } from './user.js'

// PostgreSQL cannot store U+0000 or half of a surrogate pair.
const TEXT = { pattern: '^[^\\u0000\\ud800-\\udfff]*$', title: 'text without U+0000 and half characters' }

/** An e-mail address: text without white space on both sides of one at sign. */
const FORMATS = { email: /^[^\s@\0\ud800-\udfff]+@[^\s@\0\ud800-\udfff]+$/u }

const id = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const fields = {
  name: { type: 'string', maxLength: 200, ...TEXT },
  email: { type: 'string', minLength: 3, maxLength: 320, format: 'email' },
  // The list of roles is a business rule, see RoleRule.
  role: { type: 'string', maxLength: 100, description: `One of ${USER_ROLES.join(', ')}` },
}

/** Compiles a schema of users. */
const checked = <T>(schema: object): DescribedSchema<T> => jsonSchema<T>(schema, { formats: FORMATS })

/** Refuses unknown properties, so that a misspelt one is not dropped silently. */
const closed = { type: 'object', additionalProperties: false } as const

/** JSON Schema of a user in answers. */
export const userShape = { title: 'User', type: 'object', required: ['id', 'name', 'email', 'role'], properties: { id, ...fields, role: { enum: USER_ROLES } } }

/** Schema of a body that creates or replaces a user. */
export const userDraft = checked<UserDraft>({ ...closed, required: ['email'], properties: fields })

/** Schema of a body that changes some fields of a user. */
export const userChange = checked<UserChange>({ ...closed, properties: fields })

/** A new role for a user (SPEC 2.3). */
export interface UserRoleChange {
  readonly userId: number
  readonly role: UserRole
}

export const userRole = checked<UserRoleChange>({
  ...closed, required: ['userId', 'role'], properties: { userId: id, role: fields.role },
})

/** A line of an upload: a change of the user with this id, or a new user. */
export const userRecord = checked<Partial<User>>({ ...closed, properties: { id, ...fields } })
