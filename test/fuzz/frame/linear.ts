import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Rule } from './rule.js'

const SMALL = 4096
const LARGE = 16 * SMALL
/** Less is linear whatever it is: looking at each pair of 65 536 characters takes seconds. */
const QUICK_MS = 6
/**
 * Linear work takes 16 times as long for 16 times as much, quadratic work 256 times: far enough
 * apart for a busy machine.
 */
const MOST = 64
const TRIES = 5

/**
 * A rule: `work` takes time in proportion to the length of a text that is made to annoy it,
 * something repeated between a beginning and
 * an end, all of `pieces`. What looks slow is measured again and again, and has to be slow each time.
 */
export function linear(pieces: readonly string[], work: (text: string) => unknown): Rule {
  const piece = fc.constantFrom('', ...pieces)
  const unit = fc
    .array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 3 })
    .map((parts) => parts.join(''))
    .filter((text) => text !== '')
  return fc.asyncProperty(piece, unit, piece, async (before, repeated, after) => {
    const text = (length: number): string => before + repeated.repeat(Math.ceil(length / repeated.length)) + after
    const [small, large] = [text(SMALL), text(LARGE)]
    if (await cpu(work, large) < QUICK_MS) return
    for (let tries = 0; tries < TRIES; tries++) {
      if (await least(work, large) < Math.max(QUICK_MS, MOST * await least(work, small))) return
    }
    assert.fail(
      `${await least(work, small)} ms for ${small.length} characters, ${await least(work, large)} ms for ${large.length}`,
    )
  })
}

/** What else the machine does makes it longer and never shorter. */
async function least(work: (text: string) => unknown, text: string): Promise<number> {
  let found = Infinity
  for (let run = 0; run < 4; run++) found = Math.min(found, await cpu(work, text))
  return found
}

async function cpu(work: (text: string) => unknown, text: string): Promise<number> {
  const before = process.cpuUsage()
  try {
    await work(text)
  } catch {
    // Refused is fine; it is about how long that takes.
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
