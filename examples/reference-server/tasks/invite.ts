import { defineTask, jsonSchema } from 'longhaul'

/** The answer of a person. */
interface Approval {
  readonly send: boolean
  readonly role?: 'viewer' | 'editor' | 'admin'
  readonly days?: number
  readonly note?: string
}

/** Asks before it does something that cannot be undone. Nothing is sent here. */
export const invite = defineTask({
  name: 'invite',
  input: jsonSchema<{ email: string }>({
    type: 'object', required: ['email'], additionalProperties: false,
    properties: { email: { type: 'string', minLength: 3, maxLength: 320 } },
  }),
  asks: {
    approve: jsonSchema<Approval>({
      type: 'object', required: ['send'], additionalProperties: false,
      properties: {
        send: { type: 'boolean', title: 'Send it' },
        role: { type: 'string', enum: ['viewer', 'editor', 'admin'], title: 'Role', default: 'viewer' },
        days: { type: 'integer', minimum: 1, maximum: 90, title: 'Valid for days' },
        note: { type: 'string', maxLength: 1000, title: 'Note' },
      },
    }),
  },
  async run({ email }, { ask }) {
    const { send, role = 'viewer', days = 7 } = await ask('approve', { message: `Invite ${email}?` })
    return { message: send ? `Invited ${email} as ${role}, for ${days} days.` : `${email} is not invited.` }
  },
})
