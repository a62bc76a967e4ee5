/** One expression that matches what any of `parts` does. All have the flags of the first. */
export const anyOf = (first: RegExp, ...others: readonly RegExp[]): RegExp =>
  new RegExp([first, ...others].map(({ source }) => source).join('|'), first.flags)
