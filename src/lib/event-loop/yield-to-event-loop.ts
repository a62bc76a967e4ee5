/** Yields to the event loop: everything else that is due runs first (sockets, timers, other work). */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
