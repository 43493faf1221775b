package lease

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// ErrNotAdopted: the region's store has no configuration yet.
var ErrNotAdopted = errors.New("region has not adopted a configuration yet")

// Adoption is the configuration a region has adopted, as one agent read it from
// the region's store together with the state that gives its standing shares
// their worth. It never changes and may be shared.
type Adoption struct {
	Region      string
	Version     uint64
	Set         *rules.Set
	Shares      quota.Shares
	Incarnation string
	// Read is when it was read, on the store's clock.
	Read quota.Micros

	current generation
	since   quota.Micros // when current was adopted
	prev    *generation  // nil when current is the first
	next    bool         // no version was skipped between prev and current
	// grew says that some standing share may have grown with current, grown is
	// when one last did before; 0 for never.
	grew  bool
	grown quota.Micros
	// first says that the region never lost its buckets; otherwise they began
	// empty at born. While the region does not know what it has on loan, that is
	// when every loan is over.
	first  bool
	born   quota.Micros
	lostAt quota.Micros // when the incarnation began

	limits map[*rules.Limit]limit
}

// generation is one configuration.
type generation struct {
	set    *rules.Set
	shares quota.Shares
}

// limit is what can be said of a limit for all its keys.
type limit struct {
	share   quota.Capacity
	settled quota.Micros // from then on a bucket without a record is full
}

// Adopt reads the configuration that region has adopted: its state, the record
// of the configuration and of the one before it, all read at one moment. loan is how
// long a standing share may be lent. On an error the caller keeps the adoption it has.
func Adopt(region string, loan quota.Micros, s bucket.State, cur, prev bucket.Adopted) (*Adoption, error) {
	if cur.Version == 0 {
		return nil, ErrNotAdopted
	}
	b, g, err := load(cur)
	if err != nil {
		return nil, err
	}
	a := &Adoption{
		Region: region, Version: b.Version, Set: g.set, Shares: g.shares, Incarnation: s.Incarnation, Read: s.Now,
		current: g, since: cur.Since, grew: b.Grew, grown: quota.Micros(b.GrownUS),
		first: s.First, born: s.Since, lostAt: s.Since,
	}
	switch {
	case !s.LentKnown:
		a.born += max(loan, bucket.DrawSpan)
	case !s.First:
		// Until then, what was drawn from the buckets before may be used.
		a.born += bucket.DrawSpan
	}
	if prev.Version == 0 && !s.First {
		a.grew = true // from nothing: see Standing
	}
	if prev.Version != 0 {
		_, p, err := load(prev)
		if err != nil {
			return nil, err
		}
		a.prev = &p
		a.next = prev.Version+1 == cur.Version
		if b.After != prev.Version {
			// Another agent adopted a version in between, which the record knows
			// nothing of: it may have grown every share.
			a.grew, a.grown = true, prev.Since
		}
		// A store that moved to an earlier clock has moved these times too.
		a.grown = min(a.grown, prev.Since)
	}
	a.settle()
	return a, nil
}

func load(rec bucket.Adopted) (blob, generation, error) {
	b, err := decode(rec.Blob)
	if err != nil {
		return blob{}, generation{}, err
	}
	if b.Version != rec.Version {
		return blob{}, generation{}, fmt.Errorf("decode configuration record %d: %w: it holds version %d", rec.Version, ErrConfig, b.Version)
	}
	c := b.config()
	set, err := rules.Parse(c.Sources)
	if err != nil {
		return blob{}, generation{}, fmt.Errorf("parse configuration %d: %w: %w", rec.Version, ErrConfig, err)
	}
	return b, generation{set: set, shares: c.Shares}, nil
}

// settle precomputes what decisions ask for each limit.
func (a *Adoption) settle() {
	a.limits = make(map[*rules.Limit]limit)
	for _, r := range a.Set.Rules() {
		for i := range r.Limits {
			l := &r.Limits[i]
			share := l.StandingShare(a.Region, a.Shares)
			settled := bucket.Forever
			if l.Window > 0 {
				settled = a.began() + l.Window
			} else if full, ok := share.TimeTo(0, share.Burst); ok {
				settled = min(bucket.Forever, max(a.since, a.birth())+full)
			}
			a.limits[l] = limit{share: share, settled: settled}
		}
	}
}

// birth is when all buckets were empty, 0 when they never were.
func (a *Adoption) birth() quota.Micros {
	if a.first {
		return 0
	}
	return a.born
}

// Standing returns the region's standing share of key, counted by l, a limit of
// this adoption's Set. now is any time on the store's clock that is not later
// than the present: it only saves work.
//
// What is known of a bucket without a record, in this order:
//
//   - it never had less than its present share, since the last growth of any
//     share: it was empty then at worst;
//   - its share has grown with this configuration: it was full at its share
//     before when its record was dropped, and that may be now; and it gains at the
//     new rate since it grew. The larger of the two counts, not the sum;
//   - no rule counted it before, and no version was skipped: it starts full;
//   - in all cases, it was empty when the region last lost its buckets.
func (a *Adoption) Standing(key quota.Key, l *rules.Limit, now quota.Micros) bucket.Standing {
	known, ok := a.limits[l]
	if !ok {
		known.share = l.StandingShare(a.Region, a.Shares)
		known.settled = bucket.Forever
	}
	share := known.share
	if l.Window > 0 {
		return a.places(key, l, share, now >= known.settled)
	}
	full := bucket.Standing{Capacity: share, Base: share.Burst, Since: max(a.since, a.birth())}
	if share.Burst == 0 || now >= known.settled {
		return full
	}
	born := a.birth()
	var before quota.Capacity
	counted := false
	if a.prev != nil {
		before, counted = a.prev.share(key, a.Region)
	}
	st := bucket.Standing{Capacity: share, Since: a.since}
	start := max(a.grown, born)
	switch {
	case a.prev == nil && born > 0:
		// The region came into this configuration without its buckets: it lost
		// them, or it joined when others had owned the whole limit. Either way
		// the coordinator did not call it first, and it begins empty.
	case !counted && a.prev != nil && !a.next:
		// Versions in between may have counted it: others may have spent the tokens.
	case !counted:
		st.Base = share.Burst
		if born > 0 {
			st.Base, _ = share.Refill(0, a.since-born)
		}
	case covers(before, share):
		st.Since = start
		if start == 0 {
			st.Base = share.Burst
		}
	case start == 0:
		st.Base = min(share.Burst, before.Burst)
		st.From = a.gained(share, st.Base)
	default:
		st.Base, _ = before.Refill(0, a.since-start)
		st.Base = min(st.Base, share.Burst)
		st.From = a.gained(share, st.Base)
	}
	if born > st.Since {
		st.Since, st.From, st.Base = born, 0, 0
	}
	return st
}

// gained returns when share alone has given base since this configuration.
func (a *Adoption) gained(share quota.Capacity, base quota.Tokens) quota.Micros {
	passed, ok := share.TimeTo(0, base)
	if !ok {
		return bucket.Forever
	}
	return min(bucket.Forever, a.since+passed)
}

// StandingOf returns the standing share of a key that an assignment names: of
// no share when no rule counts the key. The key of a fixed window takes StandingAt.
func (a *Adoption) StandingOf(key quota.Key, now quota.Micros) bucket.Standing {
	st := Uncounted(key, max(a.since, a.birth()))
	if _, l := a.Set.LimitOf(key); l != nil {
		st = a.Standing(key, l, now)
	}
	st.Config = a.Version
	return st
}

// share returns the standing share of key under g; ok is false when no rule counts it.
func (g generation) share(key quota.Key, region string) (c quota.Capacity, ok bool) {
	_, l := g.set.LimitOf(key)
	if l == nil {
		return quota.Capacity{}, false
	}
	return l.StandingShare(region, g.shares), true
}

// grew reports whether some key's standing share may be larger than under old. A
// key that no rule counted before has not grown, its bucket starts full, unless
// versions were skipped.
func (g generation) grew(old generation, region string, skipped bool) bool {
	ids := make(map[string]bool)
	for _, r := range g.set.Rules() {
		ids[r.ID] = true
		for i := range r.Limits {
			was, counted := old.share(r.Sample(i), region)
			if !counted && skipped || counted && !covers(was, r.Limits[i].StandingShare(region, g.shares)) {
				return true
			}
		}
	}
	for _, r := range old.set.Rules() {
		// The keys of a rule that is gone may be counted by a more general one.
		if !ids[r.ID] {
			return true
		}
	}
	return false
}

// covers reports whether a is at least b in burst and in rate, exactly.
func covers(a, b quota.Capacity) bool {
	if a.Burst < b.Burst {
		return false
	}
	if b.Rate.Tokens == 0 {
		return true
	}
	if a.Rate.Per <= 0 || b.Rate.Per <= 0 {
		return false
	}
	ahi, alo := bits.Mul64(uint64(a.Rate.Tokens), uint64(b.Rate.Per))
	bhi, blo := bits.Mul64(uint64(b.Rate.Tokens), uint64(a.Rate.Per))
	return ahi > bhi || ahi == bhi && alo >= blo
}
