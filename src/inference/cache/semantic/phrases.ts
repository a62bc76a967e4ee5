// Phrases with which a request begins or ends and that do not change what is requested.

/** What a request wants: instructions, a fact or an explanation, yes or no, or what its own words say. */
export type RequestKind = 'how' | 'what' | 'yes_no' | 'own'

/** Courtesies. */
const POLITE = `
please | kindly | hi | hello | hey | hi there | hello there | good morning | good afternoon | good evening | ok | okay |
so | well | excuse me | quick question | i have a question | i was wondering | i am wondering | i wonder | can you |
could you | would you | will you | can you please | could you please | would you please | would you mind |
would you be able to | are you able to | can someone | can anyone | could someone | could anyone | does anyone know |
do you know | do you happen to know | i need you to | i want you to | i would like you to | may i ask | can i ask |
let me know | any idea | just | can you help me | could you help me | help me understand | if
`

/** Requests for instructions. */
const HOW = `
how do i | how do you | how do we | how do people | how does one | how does a person | how can i | how can you |
how can we | how can one | how could i | how could one | how should i | how should one | how should we | how would i |
how would one | how would you | how might i | how might one | how to | how i can | how i could | how i do |
how i should | how you can | how one can | how is it possible to | how do i go about | how would i go about |
how can i go about | how does one go about | how should i go about | how best to | what is the way to | what is a way to |
what is the best way to | what is the best way of | what is a good way to | what is the correct way to |
what is the right way to | what is the proper way to | what is the recommended way to | what is the usual way to |
what are the steps to | what are the steps for | what are the steps for | what are the steps involved in |
what steps do i take to | what steps should i take to | what steps do i need to take to | what do i need to do to |
what do i have to do to | what do i do to | what should i do to | what must i do to | what is the process for |
what is the process to | what is the process of | what is the procedure for | what is the procedure to |
what is the method for | what is the method to | is there a way to | is there any way to | the best way to |
the way to | best way to | ways to | steps to | steps for | the steps to | the steps for | instructions for |
instructions to | instructions on how to | instructions on | give me instructions for | give me instructions to |
give me the steps to | give me the steps for | i want to know how to | i would like to know how to |
i need to know how to | i want to learn how to | show me how to | show me how i can | teach me how to | teach me to |
tell me how to | tell me how i can | tell me the best way to | tell me the way to | tell me the steps to |
explain how to | explain how i can | explain to me how to | explain the steps to | explain the process of |
explaining how to | describe how to | describe the steps to | describe the process of | describe the process for |
walk me through how to | walk me through
`

/** Requests for a fact or an explanation. */
const WHAT = `
what is | what are | what exactly is | what exactly are | what | which | which is | which are | what is meant by | what is the definition of |
what is the meaning of | what is an explanation of | what do you know about | what can you tell me about |
tell me | tell me what | tell me what is | tell me what are | tell me about | tell me more about | telling me |
telling me what | telling me about | explain | explain what | explain what is | explain what are | explain to me |
explain to me what | explaining | explaining what | explain the concept of | describe | describe what |
describe what is | describing | define | definition of | the definition of | meaning of | the meaning of |
give me | give me an explanation of | give an explanation of | give me a definition of | give me the definition of |
give me information on | give me information about | i want to know | i want to know what | i want to know what is |
i would like to know | i would like to know what | i need to know | i need to know what | i want to learn about |
i would like to learn about | teach me about | understand | understand what | know what | know
`

/** Courtesies at the end. */
const ENDING = `
please | thanks | thank you | thanks in advance | thank you in advance | thank you very much | thanks a lot | if you can | if possible | if you do not mind | if you could
`

type Phrase = readonly string[]

const phrases = (text: string): readonly Phrase[] =>
  text
    .split('|')
    .map((phrase) => phrase.trim().split(/\s+/))
    .sort((left, right) => right.length - left.length)

const OPENINGS: readonly { readonly kind: RequestKind | null; readonly phrases: readonly Phrase[] }[] = [
  { kind: 'how', phrases: phrases(HOW) },
  { kind: 'what', phrases: phrases(WHAT) },
  { kind: null, phrases: phrases(POLITE) },
]
const ENDINGS = phrases(ENDING)

/** A phrase at the beginning of these words: its length and kind (null: a courtesy). Null: none. */
export const openingOf = (
  words: readonly string[],
  from: number,
): { length: number; kind: RequestKind | null } | null => {
  let longest: { length: number; kind: RequestKind | null } | null = null
  for (const { kind, phrases: list } of OPENINGS) {
    const phrase = list.find((each) => each.every((word, i) => words[from + i] === word))
    if (phrase !== undefined && phrase.length > (longest?.length ?? 0)) longest = { length: phrase.length, kind }
  }
  return longest
}

/** The number of words at the end, before `end`, that are a courtesy. */
export const endingOf = (words: readonly string[], end: number): number =>
  ENDINGS.find((each) => each.every((word, i) => words[end - each.length + i] === word))?.length ?? 0
