package mutants

// sessionMutants break what keeps the leader and the region of one mind about
// when a session ends.
var sessionMutants = []Mutant{
	{
		Name:   "no-leadership-check",
		Breaks: "A deposed leader renews a session that the new one has ended.",
		Edits: []Edit{{
			// The stand-in for the check in coordinator/term.go.
			File: "sim/leader.go",
			Old:  "leads := w.log.Leads(l.term)",
			New:  "leads := true",
		}},
	}, {
		Name:   "new-leader-keeps-old-timers",
		Breaks: "A new leader counts sessions from what the log last said of them, which knows of no renewal.",
		Edits: []Edit{{
			File: "coordinator/planner/term.go",
			Old:  "if s := lr.Session; s != nil && s.Silent {",
			New:  "if s := lr.Session; s != nil {",
		}},
	}, {
		Name:   "renews-what-is-ending",
		Breaks: "A session is renewed although its end has been proposed.",
		Edits: []Edit{{
			File: "coordinator/planner/region.go",
			Old:  "return s.ID == r.session && r.ending != s.ID && !s.Silent",
			New:  "return s.ID == r.session && !s.Silent",
		}},
	}, {
		Name:   "renews-what-is-silent",
		Breaks: "A session that the log says is silent is renewed without a log entry, and the next leader counts the silence.",
		Edits: []Edit{{
			File: "coordinator/planner/region.go",
			Old:  "r.ending != s.ID && !s.Silent && !r.marking && !r.doubt",
			New:  "r.ending != s.ID",
		}, {
			File: "coordinator/planner/sync.go",
			Old:  "	case (s.Silent || r.marking) && !req.Leaving:\n",
			New:  "	case false:\n",
		}},
	}, {
		Name:   "sync-replaces-a-live-session",
		Breaks: "A sync that names no session, because it is late or repeated, opens one in place of the live one.",
		Edits: []Edit{{
			File: "coordinator/planner/sync.go",
			Old:  "	case s == nil && !req.Leaving:\n",
			New:  "	case (s == nil || req.Session == 0 && s.Incarnation == id) && !req.Leaving:\n",
		}, {
			File: "coordinator/ledger/session.go",
			Old:  "if s.Incarnation == op.Incarnation || op.Replaces == \"\" || op.Replaces != s.Incarnation {",
			New:  "if s.Incarnation != op.Incarnation && op.Replaces != s.Incarnation {",
		}},
	}, {
		Name:   "expiry-from-receive",
		Breaks: "The region counts its deadline from the answer instead of from before the sync.",
		Edits: []Edit{{
			File: "regional/lease/keeper.go",
			Old:  "Deadline: s.store + k.usable,",
			New:  "Deadline: s.store + elapsed + k.usable,",
		}},
	}, {
		Name:   "expiry-by-another-sync",
		Breaks: "An answer that comes late is taken for the answer to the sync that is open now.",
		Edits: []Edit{{
			File: "regional/lease/keeper.go",
			Old:  "if k.open == nil || r.Seq != k.open.seq {",
			New:  "if k.open == nil {",
		}},
	}, {
		Name:   "wall-clock-expiry",
		Breaks: "The deadline is made from the agent's wall clock and compared with the store's.",
		Edits: []Edit{{
			File: "regional/lease/keeper.go",
			Old:  "Deadline: s.store + k.usable,",
			New:  "Deadline: s.clock.Real + k.usable,",
		}},
	}, {
		Name:   "no-local-expiry",
		Breaks: "A region uses its leases until the coordinator says that the session has ended.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "return r.Session != 0 && t < r.Deadline",
			New:  "return r.Session != 0",
		}},
	},
}
