const MAGIC = 0xfd2fb528
/** The magic number of a skippable frame, without its last four bits. */
const SKIPPABLE = 0x184d2a5
const RLE = 1

type Part =
  | 'magic' | 'skippable size' | 'descriptor' | 'header' | 'block header' | 'content' | 'checksum'

/**
 * Follows the frames of a zstd text (RFC 8878 section 3) without decoding them. Detects a text that
 * ends inside a frame, which the decoder of Node 22 accepts. All other faults are left to the
 * decoder.
 */
export class ZstdFrames {
  private part: Part = 'magic'
  private left = 4
  private value = 0
  private read = 0
  private checksum = false
  private lastBlock = false

  /** True if the text may end here: no frame is open. */
  get complete(): boolean {
    return this.part === 'magic' && this.read === 0
  }

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      if (this.part === 'content' || this.part === 'checksum' || this.part === 'header') {
        const skipped = Math.min(this.left, bytes.length - at)
        at += skipped
        this.left -= skipped
      } else {
        this.value += (bytes[at++] as number) * 2 ** (8 * this.read++)
        this.left--
      }
      // A part can be empty, such as the content of a block.
      while (this.left === 0) this.next()
    }
  }

  private next(): void {
    const { value } = this
    this.value = 0
    this.read = 0
    switch (this.part) {
      case 'magic':
        if (value >>> 4 === SKIPPABLE) this.begin('skippable size', 4)
        else if (value === MAGIC) this.begin('descriptor', 1)
        else this.begin('content', Infinity)
        return
      case 'skippable size':
        this.checksum = false
        this.lastBlock = true
        this.begin('content', value)
        return
      case 'descriptor':
        this.checksum = (value & 4) !== 0
        this.begin('header', headerBytes(value))
        return
      case 'block header':
        this.lastBlock = (value & 1) !== 0
        this.begin('content', (value >> 1 & 3) === RLE ? 1 : value >> 3)
        return
      case 'header':
        this.begin('block header', 3)
        return
      case 'content':
        if (!this.lastBlock) this.begin('block header', 3)
        else if (this.checksum) this.begin('checksum', 4)
        else this.begin('magic', 4)
        return
      case 'checksum':
        this.begin('magic', 4)
    }
  }

  private begin(part: Part, bytes: number): void {
    this.part = part
    this.left = bytes
  }
}

/**
 * Returns the number of bytes between the descriptor and the first block: window, dictionary id and
 * content size (section 3.1.1.1).
 */
function headerBytes(descriptor: number): number {
  const single = (descriptor & 0x20) !== 0
  const size = [single ? 1 : 0, 2, 4, 8][descriptor >> 6] as number
  const dictionary = [0, 1, 2, 4][descriptor & 3] as number
  return (single ? 0 : 1) + dictionary + size
}
