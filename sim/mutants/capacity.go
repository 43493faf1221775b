package mutants

// capacityMutants break how the ledger counts capacity and tokens, and how the
// planner counts demand.
var capacityMutants = []Mutant{
	{
		Name:   "credit-beside-a-growing-share",
		Breaks: "A standing share grows while a credit is in flight to its region, which spends both.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "		c.Burst = max(c.Burst, share.Burst+h.Flight.Credit)\n",
		}},
	}, {
		Name:   "grow-before-shrink",
		Breaks: "What a shrink will free is given away when it is assigned, while the region still uses it.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "		c = c.Max(h.Flight.Lease)\n",
			New:  "		c = share.Max(h.Flight.Lease)\n",
		}},
	}, {
		Name:   "pool-ignores-flights",
		Breaks: "The pool counts confirmed leases only, so a growth on its way is given out once more.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "	if h.Flight != nil {\n		c = c.Max(",
			New:  "	if false {\n		c = c.Max(",
		}},
	}, {
		Name:   "credit-beyond-growth",
		Breaks: "More tokens travel than the burst that bounds them, and the pool fills up again behind them.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "(op.Credit > growth.Burst || op.Credit > a.Level(l.clock))",
			New:  "op.Credit > a.Level(l.clock)",
		}},
	}, {
		Name:   "credit-beyond-level",
		Breaks: "A growth brings a full bucket, whether or not the pool has the tokens.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "(op.Credit > growth.Burst || op.Credit > a.Level(l.clock))",
			New:  "op.Credit > growth.Burst",
		}},
	}, {
		Name:   "refund-on-expiry",
		Breaks: "The end of a session brings back the tokens of its leases, though the region may have spent them.",
		Edits: []Edit{{
			File: "coordinator/ledger/session.go",
			Old:  "				a.release(r.Name)\n",
			New: `				held := a.Reserved(r.Name).Burst
				a.release(r.Name)
				a.level += held - a.Reserved(r.Name).Burst
`,
		}},
	}, {
		Name:   "refund-of-credit-in-flight",
		Breaks: "The end of a session brings back the credit that was not confirmed, though the region may have it.",
		Edits: []Edit{{
			File: "coordinator/ledger/session.go",
			Old:  "				a.release(r.Name)\n",
			New: `				if f := a.holding(r.Name).Flight; f != nil {
					a.level += f.Credit
				}
				a.release(r.Name)
`,
		}},
	}, {
		Name:   "stale-confirmation",
		Breaks: "A confirmation ends whatever is in flight, also a newer assignment than the one it is about.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "h == nil || h.Flight == nil || h.Epoch != op.Epoch",
			New:  "h == nil || h.Flight == nil",
		}},
	}, {
		Name:   "drop-before-full",
		Breaks: "An account is forgotten once nobody holds a lease, and begins anew with a full pool.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "(a.over(clock) || a.Level(clock) >= max(a.Pool().Burst, 0))",
			New:  "true",
		}},
	}, {
		Name:   "clock-jumps-with-the-leader",
		Breaks: "The ledger clock takes over the time of a new leader instead of standing still.",
		Edits: []Edit{{
			File: "coordinator/ledger/ledger.go",
			Old:  "		l.term, l.at = term, at\n",
			New:  "		l.clock += at\n		l.term, l.at = term, at\n",
		}},
	}, {
		Name:   "demand-by-consumption",
		Breaks: "A region's demand is what it was admitted, so the one that is denied most is given least.",
		Edits: []Edit{{
			File: "coordinator/planner/demand.go",
			Old:  "	denied := min(tokens(u.Denied), s.denied*max(seconds(window), 0.001))\n",
			New:  "	denied := 0.0\n",
		}, {
			// What else gives a throttled region more than it shows.
			File: "coordinator/planner/demand.go",
			Old:  "off := filled - min(max(tokens(d.level), 0), room)/room",
			New:  "off := 0.0",
		}},
	},
}
