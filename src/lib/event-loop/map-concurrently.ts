// Work on many items, a few at a time.

/**
 * Calls `work` for every item, at most `concurrency` at once; returns the results in the order of the items. The first
 * error is thrown once no call is in progress.
 */
export const mapConcurrently = async <Item, Result>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = []
  let next = 0
  let failure: { readonly thrown: unknown } | null = null
  const run = async (): Promise<void> => {
    while (next < items.length && failure === null) {
      const at = next++
      try {
        results[at] = await work(items[at]!)
      } catch (thrown) {
        failure ??= { thrown }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, run))
  if (failure !== null) throw (failure as { readonly thrown: unknown }).thrown
  return results
}
