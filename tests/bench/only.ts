/** The names after `--only=`, or all of them. Ends the process when one is unknown. */
export const onlyOf = <Name extends string>(all: readonly Name[]): readonly Name[] => {
  const flag = process.argv.find((word) => word.startsWith('--only='))
  if (flag === undefined) return all
  const names = flag.slice('--only='.length).split(',')
  const unknown = names.filter((name) => !all.includes(name as Name))
  if (unknown.length > 0) {
    console.error(`nothing is called ${unknown.join(', ')} here; there are: ${all.join(', ')}`)
    process.exit(1)
  }
  return names as Name[]
}
