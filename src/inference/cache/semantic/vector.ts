// Vectors of length one in eight bits: the similarity of two is their product.

/** What one is in eight bits. */
const ONE = 127

/** A vector, scaled to length one and rounded. Null: it has no direction. */
export const unitVector = (values: ArrayLike<number>): Int8Array | null => {
  let square = 0
  for (let i = 0; i < values.length; i++) square += values[i]! * values[i]!
  if (!(square > 0) || !Number.isFinite(square)) return null
  let largest = 0
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!))
  const unit = new Int8Array(values.length)
  for (let i = 0; i < values.length; i++) unit[i] = Math.round((values[i]! / largest) * ONE)
  return unit
}

/** The length of a vector of this form. */
export const lengthOf = (vector: Int8Array): number => Math.sqrt(productOf(vector, 0, vector))

/** The product of a vector with the one that stands at `from` among others. */
export const productOf = (all: Int8Array, from: number, vector: Int8Array): number => {
  let sum = 0
  for (let i = 0; i < vector.length; i++) sum += all[from + i]! * vector[i]!
  return sum
}

/** The similarity of two vectors, from -1 to 1. Null: they are of different models. */
export const similarity = (left: Int8Array, right: Int8Array): number | null =>
  left.length === right.length ? productOf(left, 0, right) / (lengthOf(left) * lengthOf(right)) : null
