import { announce, fill, h, isBusy, byteSize, setBusy } from './dom.js'
import { errorBox } from './errors.js'

/** The files of a task that has ended. Each one has a button, a progress bar and its errors. */
export class FileList {
  element
  #rows

  /** @param handle - the handle of the task */
  constructor(handle, files) {
    this.#rows = files.map((file) => new FileRow(handle, file))
    this.element = h('ul', { class: 'files', 'aria-label': 'Files' },
      this.#rows.map(({ element }) => element))
  }

  /** Stops the downloads and releases the memory of their files. */
  close() {
    for (const row of this.#rows) row.close()
  }
}

class FileRow {
  element
  #handle
  #file
  #button
  #stop
  #bar
  #figures = h('span', { class: 'figures' })
  #meter
  #outcome = h('div')
  #stopping = new AbortController()
  #saved = ''

  constructor(handle, file) {
    this.#handle = handle
    this.#file = file
    const { name, size, type } = file
    this.#button = h('button', {
      'type': 'button', 'aria-label': `Download ${name}`, 'onclick': () => { void this.#download() },
    }, 'Download')
    this.#stop = h('button', {
      'type': 'button', 'aria-label': `Stop the download of ${name}`,
      'onclick': () => { this.#stopping.abort(new Error('The download was stopped.')) },
    }, 'Stop')
    this.#bar = h('progress', { 'max': 100, 'value': 0, 'aria-label': `Download of ${name}` })
    this.#meter = h('div', { class: 'meter', hidden: true }, this.#bar, this.#figures, this.#stop)
    this.element = h('li', {},
      h('div', { class: 'line' },
        h('code', { class: 'file-name' }, name),
        h('span', { class: 'dim' }, `${byteSize(size)}, ${type}`), this.#button),
      this.#meter, this.#outcome)
  }

  close() {
    this.#stopping.abort(new Error('The row was removed.'))
    if (this.#saved !== '') URL.revokeObjectURL(this.#saved)
  }

  async #download() {
    if (isBusy(this.#button)) return
    const { name } = this.#file
    const stopping = new AbortController()
    this.#stopping = stopping
    setBusy(this.#button, true)
    this.#meter.hidden = false
    fill(this.#outcome)
    this.#show(0)
    try {
      const onProgress = ({ received }) => { this.#show(received) }
      // The client resumes a broken download, and compares the content with its Repr-Digest.
      const options = { signal: stopping.signal, onProgress, onRestart() {} }
      const blob = await this.#handle.file(this.#file, options).blob()
      if (!stopping.signal.aborted) this.#save(blob)
    } catch (error) {
      fill(this.#outcome, stopping.signal.aborted
        ? h('p', { class: 'dim' }, 'Stopped.')
        : errorBox(error))
      announce(stopping.signal.aborted ? `Stopped: ${name}.` : `${name}: ${error.message}`)
    } finally {
      this.#hideMeter()
      setBusy(this.#button, false)
    }
  }

  #show(received) {
    const { size } = this.#file
    const share = size > 0 ? (received / size) * 100 : 100
    this.#bar.value = share
    this.#figures.textContent = `${Math.floor(share)} %`
  }

  #save(blob) {
    const { name } = this.#file
    if (this.#saved !== '') URL.revokeObjectURL(this.#saved)
    this.#saved = URL.createObjectURL(blob)
    const link = h('a', { href: this.#saved, download: name }, `Save ${name} again`)
    link.click()
    const words = h('span', { class: 'good' }, `✓ ${byteSize(blob.size)}, the digest is right. `)
    fill(this.#outcome, h('p', {}, words, link))
    announce(`${name} was downloaded.`)
  }

  /** Hides the bar. If "Stop" has the focus, moves the focus to the button for the download. */
  #hideMeter() {
    const focused = document.activeElement === this.#stop
    this.#meter.hidden = true
    if (focused) this.#button.focus()
  }
}
