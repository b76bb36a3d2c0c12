import { h } from './dom.js'

const NARROW = '(max-width: 44rem)'

/**
 * Gives each panel a button that folds it. Only a narrow window shows the buttons (parts.css), and only there panels
 * are folded. Folds all but the first if the window is narrow now.
 */
export function foldPanels() {
  const panels = [...document.querySelectorAll('.panel')]
  const isNarrow = matchMedia(NARROW).matches
  panels.forEach((panel, at) => {
    const title = panel.querySelector('h2')
    const button = h('button', {
      'type': 'button', 'class': 'fold', 'aria-labelledby': title.id,
      'onclick': () => { fold(panel, !panel.classList.contains('folded')) },
    })
    title.before(button)
    fold(panel, isNarrow && at > 0)
  })
  addEventListener('click', ({ target }) => {
    const fragment = target.closest?.('a[href^="#"]')?.hash
    const panel = fragment && document.querySelector(fragment)
    if (panel && panels.includes(panel)) fold(panel, false)
  })
}

function fold(panel, isFolded) {
  panel.classList.toggle('folded', isFolded)
  panel.querySelector('.fold').setAttribute('aria-expanded', String(!isFolded))
}
