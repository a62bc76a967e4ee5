/** Lets everything else that is due go first: sockets, timers, other work. */
export const breath = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
