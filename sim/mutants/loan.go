package mutants

// loanMutants break loans of standing shares.
var loanMutants = []Mutant{
	{
		Name:   "lent-and-forgotten",
		Breaks: "A store that has lost its data serves its standing shares at once, though some are on loan.",
		Edits: []Edit{{
			File: "regional/lease/adoption.go",
			Old:  "		a.born += max(loan, bucket.DrawSpan)\n",
			New:  "		a.born += max(0*loan, bucket.DrawSpan)\n",
		}, {
			File: "coordinator/planner/sync.go",
			Old:  "		resp.Lent = t.lent(now, l, r.name)\n",
			New:  "		resp.Lent = new(quota.Lent)\n",
		}},
	}, {
		Name:   "loan-counted-from-now",
		Breaks: "A borrower counts its loan from when it hears of it, and uses it after its lender has begun again.",
		Edits: []Edit{{
			File: "coordinator/planner/loans.go",
			Old:  "	return max(0, n.At+sure-now)\n",
			New:  "	return max(0, sure)\n",
		}},
	}, {
		Name:   "loan-of-an-older-term",
		Breaks: "A new leader tells a borrower of a loan that it does not know the age of.",
		Edits: []Edit{{
			File: "coordinator/planner/loans.go",
			Old:  "	if n.Term != t.number {\n		return 0\n	}\n	sure",
			New:  "	sure",
		}, {
			File: "coordinator/planner/term.go",
			Old:  "known: n.Term == t.number",
			New:  "known: true",
		}},
	}, {
		Name:   "loan-of-a-former-borrower",
		Breaks: "A borrower that was out of reach is told of a loan that has ended and was lent to another region since.",
		Edits: []Edit{{
			File: "coordinator/planner/loans.go",
			Old:  "left == 0 || n.Borrower != region || !slices",
			New:  "left == 0 || !slices",
		}},
		Test: Test{"coordinator/planner", "TestALoanThatIsLentAnewIsNotToldToItsFormerBorrower"},
	}, {
		Name:   "loan-without-end",
		Breaks: "A borrower uses what it has borrowed as long as its session lives.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "	if high < rec.LoanUntil {\n",
			New:  "	if rec.LoanUntil > 0 {\n",
		}},
	}, {
		Name:   "lent-share-accrues",
		Breaks: "A share that is back has what it would have gained while another region used it.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "		st.Since, st.Base = rec.Away, 0 // the share begins again, empty\n",
			New:  "",
		}},
		Test: Test{"regional/bucket", "TestNothingOfALentShareUntilItIsBack"},
	}, {
		Name:   "lent-share-is-used",
		Breaks: "A lender whose session ends falls back to its standing share, which it has lent.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "At: rec.At, Away: rec.Away, Drawn:",
			New:  "At: rec.At, Drawn:",
		}, {
			File: "regional/bucket/store.go",
			Old:  "Released: a.Release, Away: rec.Away,",
			New:  "Released: a.Release,",
		}},
	}, {
		Name:   "loan-ends-in-use",
		Breaks: "A loan ends when its lender wants it back, whether or not its borrower has given it up.",
		Edits: []Edit{{
			File: "coordinator/ledger/loan.go",
			Old:  "n.Borrower != \"\" && n.Left(l.term, l.at) > 0",
			New:  "n.Borrower == \"\" && n.Left(l.term, l.at) > 0",
		}},
	}, {
		Name:   "loan-called-back-unheard",
		Breaks: "What is called back from a borrower is free before the borrower has heard of it.",
		Edits: []Edit{{
			File: "coordinator/ledger/loan.go",
			Old:  "		f := &Flight{Lease: lease, Borrows: true, Lenders: op.Lenders}\n",
			New:  "		a.giveBack(op.Region, op.Lenders)\n		f := &Flight{Lease: lease, Borrows: true, Lenders: op.Lenders}\n",
		}},
	}, {
		Name:   "loan-made-shorter",
		Breaks: "Lending again for less ends a loan before the time that its borrower was told.",
		Edits: []Edit{{
			File: "coordinator/ledger/loan.go",
			Old:  "	case n != nil && op.For < n.Left(l.term, l.at):\n",
			New:  "	case n != nil && op.For < 0:\n",
		}},
	}, {
		Name:   "loan-counted-twice",
		Breaks: "The capacity of a loan goes back to the pool when the lender gives it up.",
		Edits: []Edit{{
			File: "coordinator/ledger/account.go",
			Old:  "		p = p.Add(share).Sub(a.loans[i].Capacity.Max(share))\n",
			New:  "		p = p.Add(share)\n",
		}},
	}, {
		Name:   "home-while-lent",
		Breaks: "A lender is told with its next lease that its share is back, though another region has it.",
		Edits: []Edit{{
			File: "coordinator/planner/route.go",
			Old:  "h.Flight.Lends == 0 && !acct.Lent(r.name)",
			New:  "h.Flight.Lends == 0",
		}},
	}, {
		Name:   "lent-at-once",
		Breaks: "A region says that it has lent a share before all of its agents know, who serve it from memory when the store is lost.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "		if a.Lend > 0 && s.high < min(rec.At+Notice, rec.Away) {\n",
			New:  "		if a.Lend < 0 {\n",
		}, {
			File: "regional/bucket/store.go",
			Old:  "	if a.Lend > 0 {\n		return answer, fmt.Errorf(\"lend %q: %w\", a.Key, ErrSettling)\n	}\n	return answer, nil\n}",
			New:  "	return answer, nil\n}",
		}},
		Test: Test{"regional/bucket", "TestLendingSurrendersAndIsSaidLater"},
	}, {
		Name:   "lent-and-served-from-memory",
		Breaks: "An agent that has lost its store serves the standing shares that are on loan.",
		Edits: []Edit{{
			File: "regional/enforce/ladder.go",
			Old:  "	back := quota.MicrosOf(l.away.until(it.ask.Key))\n",
			New:  "	back := quota.Micros(0)\n",
		}},
		Test: Test{"regional/enforce", "TestALentShareIsNotServedFromMemory"},
	},
}
