import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { rawUsage } from '../../../src/inference/records/raw-usage.ts'

describe('the usage of a provider in the record', () => {
  test('numbers and their names are kept; zeros, text and what is not plain are not', () => {
    const raw = JSON.parse(
      '{"prompt_tokens":3,"cost":0.25,"cached":null,"ok":true,"none":0,"no":false,"note":"the prompt","list":[1],"a b":1,"__proto__":{"x":1},"details":{"deep":{"deeper":{"n":1},"n":2},"empty":{"n":0}},"big":1e999}',
    )
    expect(rawUsage(raw, {})).toEqual({ prompt_tokens: 3, cost: 0.25, ok: true, details: { deep: { n: 2 } } })
  })

  test('is absent where it says no more than the tokens that are recorded anyway, whatever its names', () => {
    const recorded = {
      prompt_tokens: 10,
      completion_tokens: 5,
      cached_tokens: 4,
      cache_write_tokens: 3,
      reasoning_tokens: 2,
    }
    for (const raw of [
      { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
      {
        ...{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
        prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 2, accepted_prediction_tokens: 0 },
      },
      { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 4, cache_creation_input_tokens: 3 },
      { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15, thoughtsTokenCount: 2 },
    ])
      expect(rawUsage(raw, recorded)).toBeNull()
  })

  test('is whole where one number has another meaning or another value', () => {
    const recorded = { prompt_tokens: 10, completion_tokens: 5 }
    const audio = {
      prompt_tokens: 10,
      completion_tokens: 5,
      prompt_tokens_details: { audio_tokens: 5, image_tokens: 0 },
    }
    expect(rawUsage(audio, recorded)).toEqual({
      ...{ prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { audio_tokens: 5 } },
    })
    expect(rawUsage({ prompt_tokens: 9, completion_tokens: 5 }, recorded)).toEqual({
      ...{ prompt_tokens: 9, completion_tokens: 5 },
    })
    expect(rawUsage({ constructor: 5 }, recorded)).toEqual({ constructor: 5 } as never)
  })

  test('is absent where it is no object, or longer than 4 KiB', () => {
    for (const raw of [undefined, null, 7, 'text', [1]]) expect(rawUsage(raw, {})).toBeNull()
    const long = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`member_number_${i}`, i]))
    expect(rawUsage(long, {})).toBeNull()
  })

  test('property: it is JSON of at most 4 KiB and holds no text of the provider', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (raw) => {
        const json = JSON.stringify(rawUsage(raw, {}))
        expect(json.length).toBeLessThanOrEqual(4_096)
        const walk = (value: unknown): void => {
          expect(typeof value).not.toBe('string')
          if (value !== null && typeof value === 'object') Object.values(value).forEach(walk)
        }
        walk(JSON.parse(json))
      }),
    )
  })
})
