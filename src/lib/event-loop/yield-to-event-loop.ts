/** Yields to the event loop: everything else that is due runs first (sockets, timers, other work). */
export const breath = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
