package mutants

// shareMutants break how standing shares are counted, and how they change.
var shareMutants = []Mutant{
	{
		Name:   "shares-not-deducted",
		Breaks: "The pool is the whole limit, although the regions own a part of it for ever.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "p := a.terms.limit.Capacity.Sub(a.terms.sum)\n",
			New:  "p := a.terms.limit.Capacity\n",
		}},
	}, {
		Name:   "offered-share-not-counted",
		Breaks: "A new share counts once the region has confirmed it, though it may have adopted it long before.",
		Edits: []Edit{{
			File: "coordinator/ledger/terms.go",
			Old:  "		if r.Offered != r.Confirmed {\n",
			New:  "		if false {\n",
		}},
	}, {
		Name:   "shares-grow-at-once",
		Breaks: "A share grows before the others have confirmed that theirs have shrunk.",
		Edits: []Edit{{
			File: "coordinator/ledger/config.go",
			Old:  "	if err := l.fits(r, op.Version); err != nil {\n		return err\n	}\n",
			New:  "",
		}},
	}, {
		Name:   "marks-ignored",
		Breaks: "Where shares have shrunk an account opens with a full pool, as if their tokens had not been spent.",
		Edits: []Edit{{
			File: "coordinator/ledger/terms.go",
			Old:  "		a.level = min(a.level, l.marks[i].level(pool, l.clock))\n",
			New:  "		_ = l.marks[i]\n",
		}},
	}, {
		Name:   "grown-share-starts-full",
		Breaks: "A share that has grown starts full, though others had the tokens before.",
		Edits: []Edit{{
			File: "regional/lease/adoption.go",
			Old:  "		st.Base = min(share.Burst, before.Burst)\n",
			New:  "		st.Base = share.Burst\n",
		}, {
			File: "regional/lease/adoption.go",
			Old:  "		st.Base, _ = before.Refill(0, a.since-start)\n		st.Base = min(st.Base, share.Burst)\n",
			New:  "		st.Base = share.Burst\n",
		}},
	}, {
		Name:   "late-region-starts-full",
		Breaks: "A region that adopts its first rules after they were edited starts full, though others had the tokens before.",
		Edits: []Edit{{
			File: "coordinator/ledger/config.go",
			Old:  "			if r.Offered == 0 {\n",
			New:  "			if r.Offered == 0 && r.Late {\n",
		}},
	}, {
		Name:   "shrunk-share-comes-back",
		Breaks: "A record that nobody touched while its share was small has what it had before, when the share grows again.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "		level = min(level, st.Base)\n",
			New:  "		level = min(level, st.Burst)\n",
		}},
		Test: Test{"regional/bucket", "TestAShareThatShrinksAndGrowsGivesNothingBack"},
	}, {
		Name:   "dropped-after-a-raise",
		Breaks: "A record that is dropped as full at a small share counts as full since the share grew, and as grown since then.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "time-st.Began())",
			New:  "time-st.Since)",
		}},
		Test: Test{"regional/lease", "TestARecordThatIsDroppedAfterARaiseIsWorthWhatItWas"},
	}, {
		Name:   "unseen-keys-always-fit",
		Breaks: "A share grows though others have not given theirs up, of all keys that have no account.",
		Edits: []Edit{{
			File: "coordinator/ledger/config.go",
			Old:  "fitsIn(before[key].share(r.Name), next",
			New:  "fitsIn(next.share(r.Name), next",
		}, {
			File: "coordinator/ledger/config.go",
			Old:  "	before := l.samples()\n",
			New:  "",
		}},
		Test: Test{"coordinator/ledger", "TestAShareThatGrowsWaitsForRoomInUnseenKeysToo"},
	}, {
		Name:   "a-little-too-much-is-kept",
		Breaks: "Room that a share needs is recalled only from regions that have more than a dead band too much, so a region may never adopt its rules.",
		Edits: []Edit{{
			File: "coordinator/planner/decide.go",
			Old:  " || short.must[dim]\n",
			New:  "\n",
		}},
		Test: Test{"coordinator/planner", "TestRoomIsMadeThoughNobodyHasMuchTooMuch"},
	},
}
