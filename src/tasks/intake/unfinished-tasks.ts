import type { Ledger } from '../record/ledger.js'
import { isFinal } from '../record/state.js'
import { tooManyTasks } from './not-enqueued.js'

/** Maximum number of unfinished tasks of one party, unless the definition has `maxPerOwner`. */
const MAX_PER_PARTY = 100
/** Maximum number of tasks that are counted. Beyond it, the party that came first is forgotten. */
const MAX_COUNTED = 100_000
/** Time after which all tasks of a party at its limit are read again, in milliseconds. */
const READ_ALL_MS = 1000
/** Number of tasks of a party at its limit that each request reads in the meantime. */
const READ_SOME = 4

/** The counted tasks of one party, by id. `true`: the record of the task was written. */
interface Party {
  readonly name: string
  readonly tasks: Map<string, boolean>
  /** Time when all its tasks were last read. */
  readAllAt: number
  /** Reads of its tasks that run now. */
  reading: Promise<boolean> | undefined
}

/**
 * Counts the unfinished tasks of each party (see `countedAs`) that this process has accepted over
 * HTTP. It is the default of `maxPerOwner`. It costs no call to the store until a party reaches the
 * limit, because the ends of tasks in this process are noted. At the limit the tasks are read:
 * other processes may have ended them.
 *
 * The count belongs to this process, so a restart forgets it, and each process has its own.
 */
export class UnfinishedTasks {
  private readonly parties = new Map<string, Party>()
  private readonly partyOf = new Map<string, Party>()

  constructor(private readonly ledger: Ledger) {}

  /**
   * Accepts a task, and counts it until it ends.
   *
   * @param task - `mayExist`: a task of this id may exist. It needs no place.
   * @param accept - resolves to a task with `created: false` if the task existed already
   * @throws {HttpError} 429 `too_many_tasks`, and the errors of `accept`
   */
  async count<A extends { readonly created: boolean }>(
    name: string, { id, mayExist }: { readonly id: string, readonly mayExist: boolean },
    accept: () => Promise<A>,
  ): Promise<A> {
    if (this.partyOf.has(id)) return accept()
    if (mayExist && this.fullParty(name) && await this.ledger.read(id)) return accept()
    // Requests that wait at once share the reads. Each takes its place before the next continues.
    for (let full = this.fullParty(name); full; full = this.fullParty(name)) {
      full.reading ??= this.removeEnded(full)
      if (!await full.reading && this.fullParty(name)) throw tooManyTasks()
    }
    const party = this.add(name, id)
    try {
      const accepted = await accept()
      // It may have ended meanwhile.
      if (!accepted.created) this.remove(id)
      else if (party.tasks.has(id)) party.tasks.set(id, true)
      return accepted
    } catch (error) {
      this.remove(id)
      throw error
    }
  }

  /** Notes that a task has ended. */
  remove(id: string): void {
    const party = this.partyOf.get(id)
    if (!party) return
    this.partyOf.delete(id)
    party.tasks.delete(id)
    if (party.tasks.size === 0) this.parties.delete(party.name)
  }

  private add(name: string, id: string): Party {
    let party = this.parties.get(name)
    if (!party) {
      party = { name, tasks: new Map(), readAllAt: -Infinity, reading: undefined }
      this.parties.set(name, party)
    }
    party.tasks.set(id, false)
    this.partyOf.set(id, party)
    if (this.partyOf.size > MAX_COUNTED) this.forgetFirst()
    return party
  }

  private fullParty(name: string): Party | undefined {
    const party = this.parties.get(name)
    return party && party.tasks.size >= MAX_PER_PARTY ? party : undefined
  }

  /**
   * Removes tasks that have ended elsewhere. Reads all of them once in a while, and otherwise the
   * next few: if none is unfinished, any of them shows it. Resolves to `true` if it removed one.
   */
  private async removeEnded(party: Party): Promise<boolean> {
    const isDue = performance.now() - party.readAllAt > READ_ALL_MS
    const ids = [...party.tasks.keys()].slice(0, isDue ? undefined : READ_SOME)
    if (isDue) party.readAllAt = performance.now()
    let hasRemoved = false
    const reads = await Promise.all(ids.map(async (each) => this.ledger.read(each))).finally(() => {
      party.reading = undefined
    })
    for (const [at, each] of ids.entries()) {
      const task = reads[at]
      // A task whose record is being written is not there yet.
      const hasEnded = task ? isFinal(task.state) : party.tasks.get(each) === true
      if (hasEnded) this.remove(each)
      else this.moveToEnd(party, each)
      hasRemoved ||= hasEnded
    }
    return hasRemoved
  }

  private moveToEnd({ tasks }: Party, id: string): void {
    const isWritten = tasks.get(id)
    if (isWritten === undefined) return
    tasks.delete(id)
    tasks.set(id, isWritten)
  }

  private forgetFirst(): void {
    const [first] = this.parties.values()
    for (const id of [...first?.tasks.keys() ?? []]) this.remove(id)
  }
}
