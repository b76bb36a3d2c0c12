import { h } from './dom.js'

let made = 0

/**
 * Asks before something that cannot be undone, or that changes many tasks. Resolves to true if the user agrees. The
 * focus is then where it was before.
 *
 * @param verb - the label of the button that agrees
 */
export function confirmed(question, verb) {
  const id = `confirm-${++made}`
  const dialog = h('dialog', { 'class': 'confirm', 'aria-labelledby': id },
    h('p', { id }, question),
    h('div', { class: 'actions' },
      h('button', { type: 'button', class: 'main', onclick: () => { dialog.close('yes') } }, verb),
      h('button', { type: 'button', autofocus: true, onclick: () => { dialog.close('no') } }, 'Do nothing')))
  document.body.append(dialog)
  dialog.showModal()
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove()
      resolve(dialog.returnValue === 'yes')
    })
  })
}
