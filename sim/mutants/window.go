package mutants

// windowMutants break what makes a window's tokens be spent once.
var windowMutants = []Mutant{
	{
		Name:   "missing-window-is-full",
		Breaks: "A bucket of a window that has no record is taken for unused, though the store has lost its data.",
		Edits: []Edit{{
			File: "regional/lease/window.go",
			Old:  "	case later(since):\n",
			New:  "	case later(since) || true:\n",
		}},
	}, {
		Name:   "window-share-grows-with-tokens",
		Breaks: "A share that grows while a window runs has tokens for it, which others may have spent.",
		Edits: []Edit{{
			File: "regional/lease/window.go",
			Old:  "st.Base = min(known.share.Burst, before.Burst)",
			New:  "st.Base = known.share.Burst",
		}},
	}, {
		Name:   "window-record-ends-with-it",
		Breaks: "The record of a window is forgotten at its end, while an agent whose clock is behind still counts in it.",
		Edits: []Edit{{
			File: "regional/lease/window.go",
			Old:  "left := max(0, w.End-wall) + Skew",
			New:  "left := max(quota.Second, w.End-wall)",
		}, {
			File: "regional/lease/window.go",
			Old:  "	return (left + lastsStep - 1) / lastsStep * lastsStep\n",
			New:  "	return left\n",
		}},
	}, {
		Name:   "window-account-dropped-early",
		Breaks: "The account of a window is dropped when nobody holds a lease, although the window runs.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "(a.over(clock) || ",
			New:  "(a.Windowed() || ",
		}},
	}, {
		Name:   "shrunk-window-share-comes-back",
		Breaks: "A window that began before standing shares shrank opens with a full pool, although they may be spent.",
		Edits: []Edit{{
			File: "coordinator/ledger/terms.go",
			Old:  "m.until = l.clock + beginsAfter(t.limit.Rate.Per)",
			New:  "m.until = l.clock",
		}},
	}, {
		Name:   "key-without-its-window",
		Breaks: "All windows are counted under one key, which is never refilled.",
		Edits: []Edit{{
			File: "regional/enforce/window.go",
			Old:  "	w := l.WindowAt(p.wall)\n",
			New:  "	w := l.WindowAt(0)\n",
		}},
		Test: Test{Package: "regional/enforce", Name: "TestK16AFixedWindowDoublesAtItsEdge"},
	},
}
