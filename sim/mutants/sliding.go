package mutants

// slidingMutants free places of sliding windows that are still occupied.
var slidingMutants = []Mutant{
	{
		Name:   "occupied-places-given-up",
		Breaks: "A region whose lease shrinks gives up all that it loses, though admissions of the last window occupy it.",
		Edits: []Edit{{
			File: "regional/bucket/window.go",
			Old:  "	return min(occupied, f.held)\n",
			New:  "	return min(occupied, 0)\n",
		}},
	}, {
		Name:   "confirmed-places-are-free",
		Breaks: "All that a confirmation leaves to the pool is free, and not only what the region has given up.",
		Edits: []Edit{{
			File: "coordinator/ledger/sliding.go",
			Old:  "	a.level += min(surrendered, reserved.Burst-a.Reserved(region).Burst)\n",
			New:  "	a.level += reserved.Burst - a.Reserved(region).Burst\n",
		}},
	}, {
		Name:   "places-of-an-ended-session-are-free",
		Breaks: "What a region had beyond its share is given away when its session has ended, though it is in use for a window.",
		Edits: []Edit{{
			File: "coordinator/ledger/sliding.go",
			Old:  "		a.owe(Return{clock + keeps(a.sliding()), missing})\n",
			New:  "		a.level += missing\n",
		}},
	}, {
		Name:   "lost-log-is-empty",
		Breaks: "A region that has lost its store starts with its whole share, though what it has forgotten occupies it.",
		Edits: []Edit{{
			File: "regional/lease/places.go",
			Old:  "	born := a.lost()\n",
			New:  "	born := quota.Micros(0)\n",
		}},
	}, {
		Name:   "shrunk-share-is-free",
		Breaks: "What a standing share loses is in the pool at once, though the region has used it within the last window.",
		Edits: []Edit{{
			File: "coordinator/ledger/config.go",
			Old:  "	a.terms = next\n",
			New:  "	if next.limit.Window > 0 {\n		a.level += max(0, a.terms.sum.Burst-next.sum.Burst)\n	}\n	a.terms = next\n",
		}, {
			File: "coordinator/ledger/terms.go",
			Old:  "		m.until = l.clock + keeps(t.limit.Window)\n",
			New:  "		m.until = l.clock\n",
		}},
	}, {
		Name:   "grown-share-is-free",
		Breaks: "A standing share that has grown has its new places at once, though they are occupied elsewhere.",
		Edits: []Edit{{
			File: "regional/lease/places.go",
			Old:  "		st.Base = before.Burst\n",
			New:  "		st.Base = share.Burst\n",
		}},
	}, {
		Name:   "lease-over-a-growing-share",
		Breaks: "A lease covers a share before the region knows that a part of it is occupied elsewhere.",
		Edits: []Edit{{
			File: "coordinator/ledger/sliding.go",
			Old:  "			return ErrInFlight\n",
			New:  "			return nil\n",
		}},
		Test: Test{"coordinator/ledger", "TestAssignmentsForASlidingWindow"},
	}, {
		Name:   "lease-by-an-older-configuration",
		Breaks: "An agent applies a lease by a configuration that the region has left, and does not know that the share has grown.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "		if st.Config != s.region.Config {\n",
			New:  "		if false {\n",
		}},
		Test: Test{"regional/bucket", "TestALeaseIsAppliedByTheConfigurationInForce"},
	},
}
