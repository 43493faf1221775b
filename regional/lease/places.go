package lease

import (
	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/bucket"
)

// began is since when at the latest all is known of a sliding window. Such a share is
// never lent, so it matters only when the region has lost its store.
func (a *Adoption) began() quota.Micros {
	return max(a.since, a.lost())
}

// places is Standing for a sliding window. Where nothing is known of a share, because
// it has grown and others had those places, or because the region has lost its store,
// what is not known to have been free counts as in use for a window.
func (a *Adoption) places(key quota.Key, l *rules.Limit, share quota.Capacity, settled bool) bucket.Standing {
	st := bucket.Standing{Capacity: share, Base: share.Burst, Since: a.began(), Window: windowOf(l.Algorithm)}
	if share.Burst == 0 || settled {
		// What was lost is long over; and a record that is older has nothing to learn.
		st.Since = 0
		return st
	}
	born := a.lost()
	start := max(a.grown, born)
	st.Since = a.since
	var before quota.Capacity
	counted := false
	if a.prev != nil {
		before, counted = a.prev.share(key, a.Region)
	}
	switch {
	case a.prev == nil && born > 0:
		st.Base = 0
	case !counted && a.prev != nil && !a.next:
		st.Base = 0 // versions in between may have counted it
	case !counted:
		// Nobody has used it before it was counted, but for one who has lost its store.
		if born > 0 && a.since < born+l.Window {
			st.Base = 0
		}
	case before.Burst >= share.Burst:
		if st.Since = start; start > 0 {
			st.Base = 0
		}
	case start > 0 && a.since < start+l.Window:
		st.Base = 0
	default:
		st.Base = before.Burst
	}
	if born > st.Since {
		st.Since, st.Base = born, 0
	}
	return st
}

// Uncounted is the standing share of a key of which no rule is known: nothing. The key
// says whether it is a sliding window, so that its record is read as one.
func Uncounted(key quota.Key, since quota.Micros) bucket.Standing {
	st := bucket.Standing{Since: since}
	if d, err := rules.DecodeKey(key); err == nil && d.Sliding.Length > 0 {
		st.Window, st.Rate.Per = windowOf(d.Sliding.Algorithm), d.Sliding.Length
	}
	return st
}

func windowOf(a rules.Algorithm) bucket.Window {
	switch a {
	case rules.SlidingWindowLog:
		return bucket.LogWindow
	case rules.SlidingWindowCounter:
		return bucket.CounterWindow
	}
	return bucket.NoWindow
}
