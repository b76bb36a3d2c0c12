/** The roles that a user may have. */
export const USER_ROLES = ['admin', 'editor', 'viewer'] as const

export type UserRole = (typeof USER_ROLES)[number]

/** The user record of SPEC 2.1. */
export interface User {
  readonly id: number
  readonly name: string
  /** Unique among users, regardless of case. */
  readonly email: string
  readonly role: UserRole
}

/** The input for a new user. Default name `''`, default role `viewer`. */
export interface UserDraft {
  readonly name?: string
  readonly email: string
  readonly role?: UserRole
}

export type UserChange = Partial<UserDraft>

/** Returns the form of an email that must be unique. */
export function emailKey(email: string): string {
  return email.toLowerCase()
}
