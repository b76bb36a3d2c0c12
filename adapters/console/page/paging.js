import { isBusy, setBusy } from './dom.js'

/** Pages of a list whose server names only the next page. Keeps the URLs of the pages before. */
export class Paging {
  #previous
  #next
  #show
  #list
  /** URLs of the pages from the first to the shown one. The first needs none. */
  #pages = []
  #nextUrl
  #latest = 0

  /**
   * @param buttons - the buttons `previous` and `next`
   * @param show - shows the tasks of a page, or the error of reading it
   */
  constructor({ previous, next }, show) {
    this.#previous = previous
    this.#next = next
    this.#show = show
    previous.addEventListener('click', () => {
      if (!isBusy(previous)) void this.#open(this.#pages.slice(0, -1))
    })
    next.addEventListener('click', () => {
      if (!isBusy(next)) void this.#open([...this.#pages, this.#nextUrl])
    })
    this.clear()
  }

  /** The number of the shown page, from 1. */
  get number() {
    return this.#pages.length
  }

  /** Reads and shows the first page of a list of `client.tasks`. */
  first(list) {
    this.#list = list
    return this.#open([undefined])
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
      page = await this.#list.page(pages.at(-1))
    } catch (fault) {
      error = fault
    }
    // The answer to an earlier request may arrive late.
    if (mine !== this.#latest) return
    this.#turn(pages, page.next)
    this.#show(page.items.map(({ body }) => body), error)
  }

  #turn(pages, nextUrl) {
    this.#pages = pages
    this.#nextUrl = nextUrl
    setBusy(this.#previous, pages.length < 2)
    setBusy(this.#next, nextUrl === undefined)
  }
}
