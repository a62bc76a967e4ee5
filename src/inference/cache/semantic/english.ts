// What the guard knows of English: words that carry no meaning of their own, words for numbers and units, and words
// that mean the same.

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/** Words that may be added, removed or changed without a change of meaning. All others are content. */
export const EMPTY_WORDS: ReadonlySet<string> = words(`
  a an the this that these those is are am be being do does have has i me my we us our it its there and
  please just really actually exactly basically simply kindly also then so
`)

/** Prepositions, by what they relate. Two of them before the same word have to relate alike. */
export const RELATIONS: ReadonlyMap<string, string> = new Map([
  ['to', 'to'],
  ['into', 'to'],
  ['onto', 'to'],
  ['for', 'for'],
  ['with', 'with'],
  ['using', 'with'],
  ['in', 'in'],
  ['on', 'on'],
  ['at', 'at'],
  ['of', ''],
])

/** Words with which a yes-or-no question begins. */
export const ASKING: ReadonlySet<string> = words('is are am do does did was were has have can could will would should')

/** Words of time and possibility. They change places between a question and its sentence. */
export const AUXILIARIES: ReadonlySet<string> = words(
  'was were did had been will would can could should must may might shall',
)

/** Words with which a question of another kind begins. */
export const QUESTION_WORDS: ReadonlySet<string> = words('who whom whose when where why which how what')

/** Words that are replaced wherever they stand: shapes of the same word, numbers, units. */
export const SAME_WORDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    which: 'what',
    whom: 'who',
    cannot: 'not can',
    one: '1',
    two: '2',
    three: '3',
    four: '4',
    five: '5',
    six: '6',
    seven: '7',
    eight: '8',
    nine: '9',
    ten: '10',
    eleven: '11',
    twelve: '12',
    twenty: '20',
    thirty: '30',
    fifty: '50',
    first: '1st',
    percent: '%',
    kilogram: 'kg',
    kilograms: 'kg',
    kilometer: 'km',
    kilometers: 'km',
    kilometre: 'km',
    kilometres: 'km',
    centimeters: 'cm',
    centimetres: 'cm',
    minutes: 'minute',
    mins: 'minute',
    min: 'minute',
    hours: 'hour',
    hrs: 'hour',
    seconds: 'second',
    secs: 'second',
    dollars: 'dollar',
    euros: 'euro',
    people: 'person',
    children: 'child',
    men: 'man',
    women: 'woman',
    feet: 'foot',
    teeth: 'tooth',
    mice: 'mouse',
    colour: 'color',
    colours: 'color',
    favourite: 'favorite',
    centre: 'center',
    organise: 'organize',
    summarise: 'summarize',
    analyse: 'analyze',
    licence: 'license',
    cancelling: 'canceling',
    travelling: 'traveling',
  }),
)

/**
 * Words of one meaning in a line, in their stems. Used only between texts that differ in more than one word, and never
 * a list of what is merely near.
 */
const MEANINGS = `
  buy purchas
  car automobil
  fix repair
  begin start commenc
  end finish
  big larg
  quick fast rapid
  movie film
  photo picture
  child kid
  error mistak
  phone telephon
  laptop notebook
  tv television
  ad advertisement
  fridg refrigerator
  doctor physician
  lawyer attorney
  shop store
  job occupation
  salary wag pay
  garbag trash rubbish
  delet remov eras
  creat mak
  change modify alter
  verify confirm
  select choos pick
  locat find
  obtain get
  assist help
  require need
  show display
  simpl easy
  difficult hard
  main primary principal
  typ kind sort
  reason caus
  benefit advantag
  drawback disadvantag downsid
  function method
  folder directory
  app application
  info information detail
  config configuration
  repo repository
  db databas
  docs documentation
  email e-mail mail
  website sit webpag
  login sign-in
  connect link
  launch run execut
  construct build
  author writer
  smart intelligent clever
  glad happy
  ill sick
  wealthy rich
  speak talk
  near clos
  often frequently
  roughly approximately about
  maximum max
  minimum min
  usa america u.s.
  uk britain
`

/** A stem -> the line in which it stands. */
export const MEANING_OF: ReadonlyMap<string, string> = new Map(
  MEANINGS.trim()
    .split('\n')
    .flatMap((line) => {
      const stems = line.trim().split(/\s+/)
      return stems.map((stem) => [stem, stems[0]!] as const)
    }),
)

const VOWEL = /[aeiouy]/

/**
 * The stem of a word: without the endings of the plural, of the present and of `-ing`. The past keeps its own form: who
 * plays is not who played.
 */
export const stemOf = (word: string): string => {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word
  let stem = word
  if (stem.endsWith('ies') && stem.length > 4) stem = `${stem.slice(0, -3)}y`
  else if (/(?:s|x|z|ch|sh)es$/.test(stem)) stem = stem.slice(0, -2)
  else if (stem.endsWith('s') && !/(?:ss|us|is)$/.test(stem)) stem = stem.slice(0, -1)
  if (stem.endsWith('ing') && stem.length > 5 && VOWEL.test(stem.slice(0, -3))) {
    stem = stem.slice(0, -3)
    if (/([bdfgmnprt])\1$/.test(stem)) stem = stem.slice(0, -1)
  }
  return stem.length > 3 && stem.endsWith('e') ? stem.slice(0, -1) : stem
}
