// A set for members that come and go thousands of times a second. The engine's `Set` and `Map` replace their table
// every few dozen changes, and each replaced table refers to the next one and to its members, so that a young
// collection finds all of them alive.

/** A member of an index set, of one at a time. */
export interface IndexSetMember {
  /** Its index, -1 outside a set. Only the set writes it. */
  place: number
}

/** An array whose members store their index: adding and removing cost a few writes and leave no garbage. */
export class IndexSet<Member extends IndexSetMember> {
  readonly #members: Member[] = []

  get size(): number {
    return this.#members.length
  }

  /** Without effect when it is a member already. */
  add(member: Member): void {
    if (member.place !== -1) return
    member.place = this.#members.length
    this.#members.push(member)
  }

  /** Without effect when it is no member. The last member takes its index. */
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

  /**
   * Visits the present members. Any may be removed meanwhile; one that stays may then be visited twice, but is never
   * missed.
   */
  each(visit: (member: Member) => void): void {
    for (let place = this.#members.length - 1; place >= 0; place--) {
      const member = this.#members[place]
      if (member !== undefined) visit(member)
    }
  }
}
