/**
 * Settings that the server has put into this page: `tasks` and `operators` (paths of the API, absent if the page has no such
 * panel), `access`, `bearer`, `retryMany` and `partialResults`.
 */
export const config = JSON.parse(document.querySelector('meta[name=console]').content)
