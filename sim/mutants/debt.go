package mutants

// debtMutants break what is given back, settled and owed.
var debtMutants = []Mutant{
	{
		Name:   "refund-sent-again",
		Breaks: "A refund without an answer is sent again, as it denies nobody: then it may count twice.",
		Edits: []Edit{{
			File: "regional/enforce/enforcer.go",
			Old:  "		if err == nil && len(res.Verdicts) != len(p.asks) {\n",
			New:  "		if err != nil && p.refunds {\n			res, err = e.cfg.Store.Take(ctx, Take{Incarnation: s.Incarnation, Config: s.Version, Asks: p.asks})\n		}\n		if err == nil && len(res.Verdicts) != len(p.asks) {\n",
		}},
	}, {
		Name:   "refund-above-the-burst",
		Breaks: "A refund raises a bucket above its burst, and what is above it is kept.",
		Edits: []Edit{{
			File: "regional/bucket/cost.go",
			Old:  "full := room(b.Capacity.Burst, b.Held)",
			New:  "full := room(quota.MaxTokens, b.Held)",
		}, {
			File: "regional/bucket/balance.go",
			Old:  "		b.Level, b.Unspent = rec.refill(b.Capacity, rec.Level, rec.At, at)\n",
			New:  "		b.Level, b.Unspent = rec.refill(b.Capacity, rec.Level, rec.At, at)\n		if rec.LoanUntil == 0 {\n			b.Level = max(b.Level, rec.Level)\n		}\n",
		}},
	}, {
		Name:   "refund-frees-too-much",
		Breaks: "A sliding log gives back whole admissions, though only a part of the youngest was given back.",
		Edits: []Edit{{
			File: "regional/bucket/log.go",
			Old:  "			l[n-1].Cost -= cost\n			break\n",
			New:  "			return l[:n-1]\n",
		}},
	}, {
		Name:   "debt-without-end",
		Breaks: "Who is admitted above zero may owe any amount, max_debt or not.",
		Edits: []Edit{{
			File: "regional/bucket/cost.go",
			Old:  "max(cost-a.Debt, 1)",
			New:  "1",
		}},
	}, {
		Name:   "debt-on-a-debt",
		Breaks: "A bucket in debt goes on admitting, down to max_debt.",
		Edits: []Edit{{
			File: "regional/bucket/cost.go",
			Old:  "max(cost-a.Debt, 1)",
			New:  "cost - a.Debt",
		}},
	}, {
		Name:   "debt-ends-with-the-lease",
		Breaks: "A region that falls back to its standing share begins without the debt of its lease.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "	level := min(rec.Level, st.Burst)\n",
			New:  "	level := max(0, min(rec.Level, st.Burst))\n",
		}},
	}, {
		Name:   "debt-ends-with-an-assignment",
		Breaks: "A lease that is applied begins at zero at least.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "deposit(b.Level, credit,",
			New:  "deposit(max(0, b.Level), credit,",
		}},
	}, {
		Name:   "settlement-without-debt",
		Breaks: "A settlement charges what is there, and forgets that the rest may be owed.",
		Edits: []Edit{{
			File: "regional/bucket/cost.go",
			Old:  "min(b.Level, -a.Debt))",
			New:  "min(b.Level, 0))",
		}},
	}, {
		Name:   "settlement-without-floor",
		Breaks: "A settlement charges all that is missing, max_debt or not.",
		Edits: []Edit{{
			File: "regional/bucket/cost.go",
			Old:  "min(b.Level, -a.Debt))",
			New:  "min(b.Level, Debt))",
		}},
	}, {
		Name:   "uncharged-and-untold",
		Breaks: "A settlement says that it has charged what there was no room for.",
		Edits: []Edit{{
			File: "regional/enforce/settle.go",
			Old:  "		most = max(most, p.items[i].v.Uncharged)\n",
			New:  "		most = max(most, 0*p.items[i].v.Uncharged)\n",
		}},
	},
}
