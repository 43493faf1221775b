package mutants

// allowanceMutants break what is drawn ahead.
var allowanceMutants = []Mutant{
	{
		Name:   "drawn-not-counted",
		Breaks: "A bucket refills as if what is drawn ahead were spent.",
		Edits: []Edit{{
			File: "regional/bucket/draw.go",
			Old:  "quota.Tokens { return max(0, burst-drawn) }",
			New:  "quota.Tokens { return max(0, burst-0*drawn) }",
		}},
	}, {
		Name:   "drawn-past-the-deadline",
		Breaks: "What is drawn of a lease just before its end is used after it.",
		Edits: []Edit{{
			File: "regional/bucket/draw.go",
			Old:  "		ends = min(ends, r.Deadline)\n",
			New:  "",
		}},
		Test: Test{"regional/bucket", "TestDrawnTokensEndWithTheLeaseOrTheLoan"},
	}, {
		Name:   "drawn-past-the-loan",
		Breaks: "What is drawn of a loan just before its end is used after it.",
		Edits: []Edit{{
			File: "regional/bucket/draw.go",
			Old:  "			ends = min(ends, rec.LoanUntil)\n",
			New:  "",
		}},
		Test: Test{"regional/bucket", "TestDrawnTokensEndWithTheLeaseOrTheLoan"},
	}, {
		Name:   "drawn-and-given-up",
		Breaks: "A region says that it has a smaller lease while more than that is drawn ahead.",
		Edits: []Edit{{
			File: "regional/bucket/draw.go",
			Old:  "	return rec.held(high) > burst\n",
			New:  "	return rec.held(high)-quota.MaxTokens > burst\n",
		}},
		Test: Test{"regional/bucket", "TestALeaseBelowWhatIsDrawnSettles"},
	}, {
		Name:   "drawn-and-reconfigured",
		Breaks: "A region confirms a configuration that leaves it less than is drawn ahead.",
		Edits: []Edit{{
			File: "regional/lease/drawn.go",
			Old:  "left(s.Now, s.ConfigSince) > 0",
			New:  "left(s.Now, s.ConfigSince) > bucket.DrawSpan",
		}},
		Test: Test{"regional/lease", "TestAConfigurationIsConfirmedWhenNothingIsDrawnByTheOneBefore"},
	}, {
		Name:   "drawn-and-lost",
		Breaks: "A new life of a store fills its shares while tokens that were drawn from the old one are in use.",
		Edits: []Edit{{
			File: "regional/lease/adoption.go",
			Old:  "		a.born += bucket.DrawSpan\n",
			New:  "		a.born += 0 * bucket.DrawSpan\n",
		}, {
			File: "regional/lease/adoption.go",
			Old:  "max(loan, bucket.DrawSpan)",
			New:  "max(loan, 0*bucket.DrawSpan)",
		}},
		Test: Test{"regional/lease", "TestStandingOfAMissingRecord"},
	}, {
		Name:   "drawn-and-replaced",
		Breaks: "An agent has a lost store replaced while tokens that were drawn from it are in use.",
		Edits: []Edit{{
			File: "regional/lease/drawn.go",
			Old:  "	return left(s.Now, s.Since)\n",
			New:  "	return 0 * left(s.Now, s.Since)\n",
		}},
		Test: Test{"regional/lease", "TestALostStoreIsReplacedWhenNothingIsDrawnFromIt"},
	}, {
		Name:   "allowance-without-end",
		Breaks: "An agent uses what it drew ahead however long that is ago.",
		Edits: []Edit{{
			File: "regional/enforce/allowance.go",
			Old:  "	return now < a.until && a.left >= cost\n",
			New:  "	return a.left >= cost\n",
		}},
	},
}
