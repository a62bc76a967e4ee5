// A set for what comes and goes thousands of times a second. A `Set` or `Map` of the engine replaces its table every few dozen changes, and each
// replaced table holds on to the next one and to what was in it: a collection of the young finds all of it alive.

/** What can be in a roster: in one at a time. */
export interface Listed {
  /** Where it stands, -1 while it is in none. Only its roster writes it. */
  place: number
}

/** An array whose members know their places: adding and removing cost a few writes and leave nothing behind. */
export class Roster<Member extends Listed> {
  readonly #members: Member[] = []

  get size(): number {
    return this.#members.length
  }

  /** Without effect when it is in already. */
  add(member: Member): void {
    if (member.place !== -1) return
    member.place = this.#members.length
    this.#members.push(member)
  }

  /** Without effect when it is not in. The last member takes the empty place. */
  delete(member: Member): void {
    const { place } = member
    if (place === -1) return
    const last = this.#members.pop()!
    if (last !== member) {
      this.#members[place] = last
      last.place = place
    }
    member.place = -1
  }

  /** Visits those that are in now. Any may be removed meanwhile; one that is still in may then be visited twice, but is never missed. */
  each(visit: (member: Member) => void): void {
    for (let place = this.#members.length - 1; place >= 0; place--) {
      const member = this.#members[place]
      if (member !== undefined) visit(member)
    }
  }
}
