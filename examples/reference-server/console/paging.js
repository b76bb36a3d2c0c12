import { isBusy, setBusy } from './dom.js'

/** Pages of a list whose server names only the next page. Keeps the paths of the pages before. */
export class Paging {
  #previous
  #next
  #read
  #show
  #pages = []
  #nextPath
  #latest = 0

  /**
   * @param buttons - the buttons `previous` and `next`
   * @param read - reads the page at a path: `{ items, next }`
   * @param show - shows the items of a page, or the error of reading it
   */
  constructor({ previous, next }, read, show) {
    this.#previous = previous
    this.#next = next
    this.#read = read
    this.#show = show
    previous.addEventListener('click', () => {
      if (!isBusy(previous)) void this.#open(this.#pages.slice(0, -1))
    })
    next.addEventListener('click', () => {
      if (!isBusy(next)) void this.#open([...this.#pages, this.#nextPath])
    })
    this.clear()
  }

  /** The number of the shown page, from 1. */
  get number() {
    return this.#pages.length
  }

  /** Reads and shows the first page. */
  first(path) {
    return this.#open([path])
  }

  /** Shows no page. */
  clear() {
    this.#latest++
    this.#turn([], undefined)
    this.#show([])
  }

  async #open(pages) {
    const mine = ++this.#latest
    let page = { items: [], next: undefined }
    let error
    try {
      page = await this.#read(pages.at(-1))
    } catch (fault) {
      error = fault
    }
    // The answer to an earlier request may arrive late.
    if (mine !== this.#latest) return
    this.#turn(pages, page.next)
    this.#show(page.items, error)
  }

  #turn(pages, nextPath) {
    this.#pages = pages
    this.#nextPath = nextPath
    setBusy(this.#previous, pages.length < 2)
    setBusy(this.#next, nextPath === undefined)
  }
}
