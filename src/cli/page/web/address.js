// The address of the page: the part behind # holds what was turned.

import { toHash } from "./settings.js";

/** Makes the address that of these flags: as a new entry of the history, to which Back goes, or in place of the last one. */
export function go(flags, isNew) {
  const hash = toHash(flags);
  const address = hash ? `#${hash}` : `${location.pathname}${location.search}`;
  if (isNew && address === location.hash) return;
  try {
    if (isNew) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch (error) {
    // A report inside another page may have no address of its own.
    if (error.name !== "SecurityError") throw error;
  }
}
